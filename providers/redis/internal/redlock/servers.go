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

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// servers records the servers that this process has met.
type servers struct {
	mu    sync.Mutex
	seen  []script.Admission // the latest admission of each server, by node; zero before the first
	all   atomic.Pointer[roster]
	known atomic.Bool // all servers have answered, or minNodeTimeout has passed
}

// roster is derived from the servers that were met. It is never changed.
type roster struct {
	// order lists the nodes in an order that all processes share, whatever their labels: sorted by the run
	// that wrote the first marker. Nodes not met yet come last.
	order []int
	// conflict is the error if two nodes lead to one server, whose vote would count twice.
	conflict error
}

// record stores the latest admission of node i's server. It returns an error if two nodes lead to one server. Locks mu.
func (s *servers) record(i int, a script.Admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[i] = a
	all := &roster{order: make([]int, len(s.seen))}
	for i, a := range s.seen {
		all.order[i] = i
		if j := slices.IndexFunc(s.seen[:i], func(b script.Admission) bool { return a.Run != "" && a.Run == b.Run }); j >= 0 {
			all.conflict = &abstractions.InvalidError{
				Field: "Options", Value: fmt.Sprintf("with servers %d and %d", j+1, i+1),
				Want: "each server once: these two are the same",
			}
		}
	}
	slices.SortStableFunc(all.order, func(i, j int) int {
		a, b := &s.seen[i], &s.seen[j]
		if a.Run == "" || b.Run == "" {
			return cmp.Compare(b.Run, a.Run)
		}
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Run, b.Run)) // copies of a server have the same first run
	})
	s.all.Store(all)
	return all.conflict
}

// checkServers contacts all servers before the first vote, and refuses a Redlock in which one
// server has several votes. A server that doesn't answer soon is checked later.
func (r *Redlock) checkServers(ctx context.Context) error {
	s := r.servers
	if s.known.Load() && s.all.Load().conflict == nil { // after a conflict, an address may have moved to another server
		return nil
	}
	r.ask(ctx, min(r.nodeTimeout(r.MaxTTL), minNodeTimeout), func(p *poll) bool {
		p.short = true
		return false
	}, r.hello())
	if ctx.Err() != nil {
		return failure.Of(ctx.Err())
	}
	s.known.Store(true)
	return s.all.Load().conflict
}

// admitAll runs admit.lua on all servers, and fails if one run fails.
func (r *Redlock) admitAll(ctx context.Context, verb string) ([]script.Admission, error) {
	all, errs := make([]script.Admission, len(r.nodes)), make([]error, len(r.nodes))
	var asking providerkit.Group
	for i, d := range r.nodes {
		asking.Go(func() (err error) {
			all[i], err = d.Admit(ctx, verb)
			return err
		}, func(err error) { errs[i] = r.label(i, err) })
	}
	asking.Wait()
	return all, errors.Join(errs...)
}

// Bootstrap lets new servers vote at once, if all of them answer and all are new.
func (r *Redlock) Bootstrap(ctx context.Context) error {
	all, err := r.admitAll(ctx, script.Look)
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
		_, err = r.admitAll(ctx, script.Bootstrap)
		return err
	case len(all):
		return nil
	}
	return &abstractions.InvalidError{Field: "Options", Value: "with " + strings.Join(used, ", ") + " in use", Want: "new servers only: the others may have lost leases, and vote after a while"}
}
