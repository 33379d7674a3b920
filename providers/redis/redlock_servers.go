package redislease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// servers are a Redlock's as this process has met them, by node.
type servers struct {
	mu   sync.Mutex
	seen []admission // the latest of each; zero before the first
	// order has the nodes in an order that all processes share, whatever they call
	// the servers: by the run that wrote the first marker. Those not met yet are last.
	order atomic.Pointer[[]int]

	once sync.Once
	met  chan struct{} // closed once all have answered, or had minPatience for it
}

func (s *servers) init(n int) {
	s.seen, s.met = make([]admission, n), make(chan struct{})
	s.sort()
}

// meet notes the run of a node's server, and refuses it if another node has the same:
// its vote would count twice.
func (s *servers) meet(i int, a admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[i].run != a.run {
		s.seen[i] = a
		s.sort()
	}
	return s.sameAs(i)
}

// sort puts the nodes in order. Caller holds mu.
func (s *servers) sort() {
	order := make([]int, len(s.seen))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := s.seen[i], s.seen[j]
		if a.run == "" || b.run == "" {
			return cmp.Compare(b.run, a.run)
		}
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.run, b.run)) // copies of one server have its first run
	})
	s.order.Store(&order)
}

// inOrder are the nodes in the order that all processes share.
func (r *redlock) inOrder() []int { return *r.servers.order.Load() }

// sameAs is the error for a node whose server is another node's. Caller holds mu.
func (s *servers) sameAs(i int) error {
	for j := range s.seen {
		if j != i && s.seen[i].run != "" && s.seen[j].run == s.seen[i].run {
			return &abstractions.InvalidError{
				Field: "Options", Value: fmt.Sprintf("with servers %d and %d", min(i, j)+1, max(i, j)+1),
				Want: "each server once: those are the same",
			}
		}
	}
	return nil
}

// conflict is the error for a server that has several nodes.
func (s *servers) conflict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.seen {
		if err := s.sameAs(i); err != nil {
			return err
		}
	}
	return nil
}

// meetServers looks at all servers before the first of them votes, and refuses a
// Redlock in which one has several votes. Those that don't answer soon are met later.
func (r *redlock) meetServers(ctx context.Context) error {
	s := &r.servers
	s.once.Do(func() {
		if !r.after.start(r.introduce) {
			close(s.met)
		}
	})
	select {
	case <-s.met:
	case <-ctx.Done():
		return failure(ctx.Err())
	}
	if s.conflict() == nil {
		return nil
	}
	_, _ = r.askMembers(ctx, admitServer) // an address may be another server's by now
	return s.conflict()
}

// introduce closes met once all servers have answered, or had their time.
func (r *redlock) introduce() {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience(r.options.maxTTL))
	defer cancel()
	late := time.AfterFunc(minPatience, func() { close(r.servers.met) })
	_, _ = r.askMembers(ctx, admitServer)
	if late.Stop() {
		close(r.servers.met)
	}
}

// askMembers runs admit.lua on all servers, and fails if that fails on any.
func (r *redlock) askMembers(ctx context.Context, verb string) ([]admission, error) {
	type answer struct {
		i   int
		a   admission
		err error
	}
	answers := make(chan answer, len(r.nodes))
	for i, d := range r.nodes {
		if !r.after.start(func() {
			a, err := aside(ctx, d, func(ctx context.Context) (admission, error) {
				return d.member.ask(ctx, d.client.(redis.Scripter), verb) //nolint:forcetypeassert // every client is one
			})
			answers <- answer{i, a, err}
		}) {
			return nil, abstractions.ErrClosed
		}
	}
	all, errs := make([]admission, len(r.nodes)), make([]error, len(r.nodes))
	for range r.nodes {
		a := <-answers
		all[a.i], errs[a.i] = a.a, r.label(a.i, a.err)
	}
	return all, errors.Join(errs...)
}
