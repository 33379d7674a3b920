package memlease

import (
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// waiter is the registration of a waiter.
type waiter struct {
	abstractions.WaitRequest
	since time.Time
}

// Wait registers a waiter. A release or a break wakes the waiter that has waited
// longest. An expiry wakes no waiter, since each knows the remaining time.
func (m *memory) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	s := m.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	wakeups, err := m.wakeups.Wait(ctx, req.Name)
	if err != nil {
		return wakeups, err
	}
	registered := &waiter{req, m.base.Add(m.now())}
	s.waiters[req.Name] = append(s.waiters[req.Name], registered)
	providerkit.AfterFunc(ctx, func() { s.leave(req.Name, registered) })
	return wakeups, nil
}

// leave ends a registration.
func (s *shard) leave(name string, leaving *waiter) {
	s.Lock()
	defer s.Unlock()
	left := slices.DeleteFunc(s.waiters[name], func(w *waiter) bool { return w == leaving })
	if s.waiters[name] = left; len(left) == 0 {
		delete(s.waiters, name)
	}
}

// Waiters lists the waiters of a name. A waiter is left out while its claim holds the
// name, and after the claim has ended.
func (m *memory) Waiters(_ context.Context, req abstractions.WaitersRequest) (list []abstractions.Waiting, err error) {
	s := m.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	r, _ := m.find(s, req.Name, m.now())
	for _, w := range s.waiters[req.Name] {
		if ended, _ := r.Ended.Find(w.ID); !ended && w.ID != r.ID && len(list) < abstractions.MaxWaiters {
			list = append(list, abstractions.Waiting{Fingerprint: abstractions.FingerprintOf(w.ID), Owner: w.Owner, Since: w.since, Now: r.Now})
		}
	}
	return list, nil
}
