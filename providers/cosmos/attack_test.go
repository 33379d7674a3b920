package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stay is a period in which a client believes that it holds the name.
type stay struct {
	id       string
	token    int64
	from, to time.Time
}

// attack runs a plan.
type attack struct {
	t    *testing.T
	bed  *bed
	plan plan
	name string

	mu      sync.Mutex
	next    int // the next fault
	stays   []stay
	free    []freeAt
	deleted bool
}

// The run has many clients, an unreliable network and a service that returns errors
// after it has applied a write. No two clients believe at the same time that they hold
// the name, and later holders have higher tokens.
func TestNoTwoHoldersWhateverHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r)
		failed := true
		synctest.Test(t, func(t *testing.T) {
			(&attack{t: t, plan: p, name: "contended"}).run()
			failed = t.Failed()
		})
		if failed {
			r.Fatalf("plan %+v", p)
		}
	})
}

func (a *attack) run() {
	a.bed = newBed(a.t, cosmostest.Options{
		Now:         func() time.Time { return time.Now().Add(a.plan.skew) },
		ReplicaSkew: a.plan.replica,
	}, a.options)
	a.bed.account.SetTTL(testDatabase, testContainer, 1) // a time to live of the container must have no effect
	a.bed.account.Before(a.fault)
	var all sync.WaitGroup
	for i, turns := range a.plan.clients {
		p := a.bed.process(a.options)
		all.Go(func() {
			for n, turn := range turns {
				a.take(p, fmt.Sprintf("c%d-%d", i, n), turn)
			}
		})
	}
	all.Go(func() {
		for _, pause := range a.plan.breaks {
			time.Sleep(pause)
			a.breakAny()
		}
	})
	all.Wait()
	a.bed.account.Before(nil)
	a.check()
}

func (a *attack) options(o *Options) { o.ExpireDocuments = a.plan.expire }

func (a *attack) fault(op cosmostest.Operation) cosmostest.Fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op.ID == "" || a.next >= len(a.plan.faults) {
		return cosmostest.Fault{}
	}
	a.next++
	return a.plan.faults[a.next-1]
}

const attackTimeout = 2 * time.Second

// trustEnd returns the end of trust in a claim, given the instant at which its request was sent.
func trustEnd(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - ttl/100 - 2*time.Millisecond)
}

// take runs one turn.
func (a *attack) take(p *Provider, id string, turn turn) {
	time.Sleep(turn.pause)
	sent := time.Now()
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
	g, err := p.Acquire(ctx, acquireRequest(a.name, id, turn.ttl))
	cancel()
	if err != nil {
		if !errors.Is(err, abstractions.ErrHeld) {
			a.release(p, abstractions.ReleaseRequest{Name: a.name, ID: id})
		}
		return
	}
	s := stay{id: id, token: g.Token, from: time.Now(), to: trustEnd(sent, turn.ttl)}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s.to.After(s.from) {
			a.stays = append(a.stays, s)
		}
	}()
	for n := range turn.renewals {
		time.Sleep(min(turn.every, time.Until(s.to)))
		prolong := p.Renew
		if n < turn.again {
			prolong = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				return p.Acquire(ctx, acquireRequest(req.Name, req.ID, req.TTL))
			}
		}
		var lost bool
		if g, lost = a.prolong(prolong, p, g, &s); lost {
			return
		}
	}
	a.finish(p, g, turn.end, &s)
}

// finish ends a turn.
func (a *attack) finish(p *Provider, g abstractions.Grant, end ending, s *stay) {
	switch end {
	case runsOut:
		time.Sleep(time.Until(s.to))
	case isBroken:
		a.breakOne(g, false)
	case isBrokenNow:
		s.to = earlier(s.to, time.Now())
		a.breakOne(g, true)
	default:
		s.to = earlier(s.to, time.Now())
		a.release(p, releaseRequest(g))
		if end == isForgotten {
			time.Sleep(settled + time.Second)
			a.forget(p)
		}
	}
}

// prolong renews a trusted claim, or acquires it again, and reports whether it was
// lost.
func (a *attack) prolong(verb func(context.Context, abstractions.RenewRequest) (abstractions.Grant, error), p *Provider, g abstractions.Grant, s *stay) (abstractions.Grant, bool) {
	sent := time.Now()
	if !sent.Before(s.to) {
		return g, true
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
	next, err := verb(ctx, renewRequest(g))
	cancel()
	switch now := time.Now(); {
	case err == nil && now.Before(s.to):
		require.Equal(a.t, g.Token, next.Token)
		s.to = trustEnd(sent, g.TTL)
		return next, false
	case err == nil: // too late: the client releases the claim, and no longer trusts it
		a.release(p, releaseRequest(next))
		return g, true
	case errors.Is(err, abstractions.ErrLost), errors.Is(err, abstractions.ErrReleased), errors.Is(err, abstractions.ErrHeld):
		s.to = earlier(s.to, now)
		return g, true
	}
	return g, false
}

// release repeats the release until its outcome is certain.
func (a *attack) release(p *Provider, req abstractions.ReleaseRequest) {
	for {
		ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
		err := p.Release(ctx, req)
		cancel()
		if err == nil {
			return
		}
		require.ErrorIs(a.t, err, abstractions.ErrUnavailable)
		time.Sleep(100 * time.Millisecond)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// check compares the stays with each other, and checks that no late request of an
// ended claim takes effect.
func (a *attack) check() {
	slices.SortFunc(a.stays, func(x, y stay) int { return x.from.Compare(y.from) })
	for i := 1; i < len(a.stays); i++ {
		before, after := a.stays[i-1], a.stays[i]
		require.False(a.t, after.from.Before(before.to), "%s and %s both believe to hold the name", before.id, after.id)
		require.Greater(a.t, after.token, before.token, "the token of %s after %s", after.id, before.id)
	}
	time.Sleep(minTTL + 5*time.Second + a.bed.Capabilities().Lateness.Fixed + 10*time.Second) // then late requests have arrived, and held leases have run out
	g := a.bed.acquire(a.name, "last")
	for _, s := range a.stays {
		require.Greater(a.t, g.Token, s.token)
	}
	for _, f := range a.free {
		for _, s := range a.stays {
			held := s.from.Before(f.from) && s.to.After(f.to) && (f.id == "" || f.id == s.id)
			require.False(a.t, held, "a break between %v and %v has said that the name is free, or another's, which %s held", f.from, f.to, s.id)
		}
	}
	if a.deleted { // the IDs that the document refused are deleted, too
		return
	}
	for i, turns := range a.plan.clients {
		for n := range turns {
			_, err := a.bed.try(a.name, fmt.Sprintf("c%d-%d", i, n))
			require.Error(a.t, err)
		}
	}
}
