package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// servers are a Redlock's as this process has met them, by node.
type servers struct {
	mu   sync.Mutex
	seen []script.Admission // the latest of each; zero before the first
	// order has the nodes in an order that all processes share, whatever they call
	// the servers: by the run that wrote the first marker. Those not met yet are last.
	order atomic.Pointer[[]int]

	once sync.Once
	met  chan struct{} // closed once all have answered, or had minPatience for it
}

func (s *servers) init(n int) {
	s.seen, s.met = make([]script.Admission, n), make(chan struct{})
	s.sort()
}

// meet notes the run of a node's server, and refuses it if another node has the same:
// its vote would count twice.
func (s *servers) meet(i int, a script.Admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[i].Run != a.Run {
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
		if a.Run == "" || b.Run == "" {
			return cmp.Compare(b.Run, a.Run)
		}
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Run, b.Run)) // copies of one server have its first run
	})
	s.order.Store(&order)
}

// inOrder are the nodes in the order that all processes share.
func (r *Redlock) inOrder() []int { return *r.servers.order.Load() }

// sameAs is the error for a node whose server is another node's. Caller holds mu.
func (s *servers) sameAs(i int) error {
	for j := range s.seen {
		if j != i && s.seen[i].Run != "" && s.seen[j].Run == s.seen[i].Run {
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
func (r *Redlock) meetServers(ctx context.Context) error {
	s := &r.servers
	s.once.Do(func() {
		if !r.after.Start(r.introduce) {
			close(s.met)
		}
	})
	select {
	case <-s.met:
	case <-ctx.Done():
		return failure.Of(ctx.Err())
	}
	if s.conflict() == nil {
		return nil
	}
	_, _ = r.askMembers(ctx, script.Admit) // an address may be another server's by now
	return s.conflict()
}

// introduce closes met once all servers have answered, or had their time.
func (r *Redlock) introduce() {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience(r.MaxTTL))
	defer cancel()
	late := time.AfterFunc(minPatience, func() { close(r.servers.met) })
	_, _ = r.askMembers(ctx, script.Admit)
	if late.Stop() {
		close(r.servers.met)
	}
}

// answer is a node's to a question that is no operation.
type answer[T any] struct {
	i     int
	value T
	err   error
}

// beside asks all nodes at the same time.
func beside[T any](r *Redlock, ask func(d *node.Node) (T, error)) (<-chan answer[T], error) {
	answers := make(chan answer[T], len(r.nodes))
	for i, d := range r.nodes {
		if !r.after.Start(func() {
			value, err := ask(d)
			answers <- answer[T]{i, value, err}
		}) {
			return nil, abstractions.ErrClosed
		}
	}
	return answers, nil
}

// askMembers runs admit.lua on all servers, and fails if that fails on any.
func (r *Redlock) askMembers(ctx context.Context, verb string) ([]script.Admission, error) {
	answers, err := beside(r, func(d *node.Node) (script.Admission, error) { return d.Admit(ctx, verb) })
	if err != nil {
		return nil, err
	}
	all, errs := make([]script.Admission, len(r.nodes)), make([]error, len(r.nodes))
	for range r.nodes {
		a := <-answers
		all[a.i], errs[a.i] = a.value, r.label(a.i, a.err)
	}
	return all, errors.Join(errs...)
}

// Bootstrap lets new servers vote at once, if all of them answer and all are new.
func (r *Redlock) Bootstrap(ctx context.Context) error {
	all, err := r.askMembers(ctx, script.Look)
	if err != nil {
		return err
	}
	var used []string
	for i, a := range all {
		if !a.New {
			used = append(used, r.peers[i].label)
		}
	}
	switch len(used) {
	case 0:
		_, err = r.askMembers(ctx, script.Bootstrap)
		return err
	case len(all):
		return nil
	}
	return &abstractions.InvalidError{Field: "Options", Value: "with " + strings.Join(used, ", ") + " in use", Want: "servers that are all new: the others may have lost leases, and vote in a while"}
}
