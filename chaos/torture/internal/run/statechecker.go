package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// stateChecker is the provider between a manager and the recorder. It numbers the grants, and records a violation
// for a renewal without the state of the latest grant. If shortens is set, it requests a shorter TTL than its
// manager.
type stateChecker struct {
	*providerkit.Intercepted
	shortens bool
	worker   int
	clock    *clock
	journal  history.Journal
	patience time.Duration

	mu     sync.Mutex
	grants int
	latest map[string]numberedState // by claim: the latest grant that the manager must have received
}

// numberedState is the state of a grant, with its number and the time by which its manager must have received the grant.
type numberedState struct {
	state any
	n     int
	known time.Duration
}

// requestTTL returns the TTL for the request to the provider below.
func (l *stateChecker) requestTTL(ttl time.Duration) time.Duration {
	if c := l.Capabilities(); l.shortens && ttl != leasing.Infinite && c.Granularity == 0 && ttl*3/4 >= c.MinTTL {
		return ttl * 3 / 4
	}
	return ttl
}

// recordGrant numbers a grant.
func (l *stateChecker) recordGrant(ctx context.Context, sent time.Duration, g *abstractions.Grant, err error) {
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.now()
	l.grants++
	one := numberedState{g.State, l.grants, now + l.patience}
	g.State = one
	deadline, bounded := ctx.Deadline()
	if ctx.Err() == nil && (!bounded || time.Until(deadline) > l.patience) && now-sent < g.TTL/2 {
		l.latest[g.ID] = one
	}
}

// innerState returns the provider's own state from a request, and checks that a renewal has the state of the latest grant.
func (l *stateChecker) innerState(id string, state any, renews bool) any {
	one, _ := state.(numberedState)
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := l.latest[id]
	if now := l.clock.now(); renews && one.n < latest.n && now > latest.known {
		l.journal.Enter(history.Violation{Check: history.CheckRenewal, At: now, Text: fmt.Sprintf("a renewal by worker %d carries the state of grant %d, and not that of grant %d, which is the latest of its claim", l.worker, one.n, latest.n)})
	}
	if !renews {
		delete(l.latest, id)
	}
	return one.state
}

func (l *stateChecker) handle(ctx context.Context, x *providerkit.Exchange) (any, error) {
	switch req := x.Request.(type) {
	case abstractions.AcquireRequest:
		return l.acquire(ctx, x, req)
	case abstractions.RenewRequest:
		return sendRenewal(ctx, x, req, l.renews)
	case []abstractions.RenewRequest:
		return sendBatch(ctx, x, req, l.renews)
	case abstractions.ReleaseRequest:
		req.State = l.innerState(req.ID, req.State, false)
		return x.Send(ctx, req)
	}
	return x.Send(ctx, x.Request)
}

func (l *stateChecker) acquire(ctx context.Context, x *providerkit.Exchange, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	sent := l.clock.now()
	if ttl := l.requestTTL(req.TTL); ttl < req.TTL { // the wait for the answer must end before the shorter TTL has passed
		within, cancel := context.WithTimeout(ctx, ttl*9/10)
		defer cancel()
		ctx, req.TTL = within, ttl
	}
	reply, err := x.Send(ctx, req)
	grant := reply.(abstractions.Grant)
	l.recordGrant(ctx, sent, &grant, err)
	return grant, err
}

func (l *stateChecker) renews(ctx context.Context, req *abstractions.RenewRequest) func(*abstractions.RenewResult) {
	sent := l.clock.now()
	req.TTL, req.State = l.requestTTL(req.TTL), l.innerState(req.ID, req.State, true)
	return func(result *abstractions.RenewResult) { l.recordGrant(ctx, sent, &result.Grant, result.Err) }
}
