package managersuite

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var realOperatorChecks = []managerCheck{
	{"ABreakReportsWhatItFound", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, Owner: "breaker"})
		lease := m.get(e.Name(), nil)
		result, err := m.Break(ctx, lease.Name(), leasing.BreakOptions{Immediate: true, Actor: "operator", Reason: "it hangs"})
		e.NoError(err)
		e.Equal(abstractions.BreakResult{WasHeld: true, Token: lease.Token()}, result)
		m.awaitEnd(lease, e.Slack)
		m.isLost(lease, abstractions.LostBroken)
		var lost *abstractions.LostError
		e.ErrorAs(lease.Err(), &lost)
		e.Equal([]string{"operator", "it hangs"}, []string{lost.BrokenBy, lost.BreakReason})
		e.IsFree(lease.Name())

		// A break of a free name ends no lease, and causes no event. The request has the default grace, which
		// only an infinite lease would use.
		for _, ttl := range []time.Duration{e.Short, e.Long} {
			m := manage(e, e.P, leasing.Options{TTL: ttl, Owner: "breaker"})
			m.setFault(breaks, nil)
			result, err = m.Break(ctx, lease.Name(), leasing.BreakOptions{})
			e.NoError(err)
			e.False(result.WasHeld)
			req := m.requests(breaks)[0].req.(abstractions.BreakRequest)
			grace := max(2*ttl, time.Minute)
			if most := e.Caps.MaxTTL; most > 0 {
				grace = min(grace, most)
			}
			e.Equal(grace, req.Grace, "the default of BreakOptions.Grace, for a manager whose TTL is %v", ttl)
			e.Equal([]any{"breaker", false, int64(0)}, []any{req.Actor, req.Immediate, req.IfToken})
			e.NoError(m.Close(ctx))
			e.Empty(m.eventLog.events(leasing.EventBroken))
		}

		// A break with IfToken leaves a newer lease alone. The manager's own holder soon learns of a break
		// without Immediate.
		next := m.get(lease.Name(), nil)
		checkError(e, suite.Second(m.Break(ctx, next.Name(), leasing.BreakOptions{IfToken: lease.Token()})), "break", next.Name(), abstractions.ErrStale)
		m.isAlive(next)
		result, err = m.Break(ctx, next.Name(), leasing.BreakOptions{IfToken: next.Token()})
		e.NoError(err)
		e.Equal([]any{true, next.Token()}, []any{result.WasHeld, result.Token})
		m.awaitEnd(next, e.Slack)
		m.isLost(next, abstractions.LostBroken, abstractions.LostGone)
		e.NoError(m.Close(ctx))
		broken := m.eventLog.events(leasing.EventBroken)
		e.Len(broken, 2)
		e.Equal([]any{lease.Name(), lease.Token(), "operator", "it hangs"}, []any{broken[0].Name, broken[0].Token, broken[0].BrokenBy, broken[0].BreakReason})
	}},
	// The check breaks some leases. One has a newer holder, and the break of another is refused.
	{"ForceReleaseReportsEach", func(ctx context.Context, e *suite.Env, m *testManager) {
		theirs := manage(e, e.Peer, leasing.Options{TTL: e.Long, NoAutoRenew: true, Owner: "gone"})
		prefix := e.Name()
		var leases []*leasing.Lease
		var records []leasing.Record
		for i := range 4 {
			leases = append(leases, theirs.get(fmt.Sprintf("%s/%d", prefix, i), nil))
			record, err := m.Inspect(ctx, leases[i].Name())
			e.NoError(err)
			records = append(records, record)
		}
		m.get(prefix+"/mine", longOptions(e))
		if _, ok := abstractions.As[abstractions.Lister](e.P); ok {
			var held []leasing.Record
			e.Await("the leases are listed", func() bool {
				var err error
				held, err = leasing.HeldBy(ctx, m.Manager, "gone", prefix+"/")
				e.NoError(err)
				return len(held) == len(leases)
			})
			for i, record := range held {
				e.Equal([]any{leases[i].Name(), leases[i].Token()}, []any{record.Name, record.Token})
			}
		}
		checkInvalid(e, "owner", suite.Second(leasing.HeldBy(ctx, m.Manager, "", prefix)))

		e.NoError(leases[1].Release(ctx))
		newer := theirs.get(leases[1].Name(), nil)
		m.setFault(breaks, func(x *exchange) error {
			if x.req.(abstractions.BreakRequest).Name == leases[2].Name() {
				return fmt.Errorf("%w: %w", abstractions.ErrDenied, errMine)
			}
			return x.pass()
		})
		done, err := leasing.ForceRelease(ctx, m.Manager, records, leasing.BreakOptions{Immediate: true})
		e.ErrorIs(err, abstractions.ErrStale)
		e.ErrorIs(err, abstractions.ErrDenied)
		e.ErrorIs(err, errMine)
		e.Len(done, len(records))
		for i, want := range []error{nil, abstractions.ErrStale, errMine, nil} {
			e.ErrorIs(done[i].Err, want, leases[i].Name())
			e.Equal(records[i], done[i].Record)
			e.Equal(want == nil, done[i].Result.WasHeld, leases[i].Name())
		}
		e.IsFree(leases[0].Name())
		e.IsFree(leases[3].Name())
		theirs.isAlive(newer)
		theirs.isAlive(leases[2])

		m.setFault(breaks, nil)
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errMine)
		done, err = leasing.ForceRelease(ended, m.Manager, records, leasing.BreakOptions{})
		e.ErrorIs(err, errMine)
		e.Empty(done)
		_, err = leasing.ForceRelease(ctx, m.Manager, records, leasing.BreakOptions{IfToken: 1})
		checkInvalid(e, "BreakOptions.IfToken", err)
		records[2].Token = 0
		_, err = leasing.ForceRelease(ctx, m.Manager, records, leasing.BreakOptions{})
		checkInvalid(e, "records[2].Token", err)
		e.Empty(m.requests(breaks), "nothing is sent")
	}},
	// In this check another client breaks leases with Immediate and acquires their names.
	{"AnyAnswerShowsALoss", func(ctx context.Context, e *suite.Env, m *testManager) {
		calls := map[string]func(name string) error{
			"TryAcquire": func(name string) error {
				if err := m.try(ctx, name); err != nil {
					e.ErrorIs(err, abstractions.ErrHeld)
				}
				return nil
			},
			"Inspect": func(name string) error { return suite.Second(m.Inspect(ctx, name)) },
		}
		if _, ok := abstractions.As[abstractions.Lister](e.P); ok {
			calls["List"] = func(name string) error {
				for _, err := range m.List(ctx, leasing.ListOptions{Prefix: name}) {
					if err != nil {
						return err
					}
				}
				return nil
			}
		}
		for what, call := range calls {
			lease := m.get(e.Name(), longOptions(e))
			e.NoError(call(lease.Name()))
			e.NoError(lease.Err(), "%s, of the holder", what)
			e.Break(abstractions.BreakRequest{Name: lease.Name(), Immediate: true})
			next := e.Acquire(e.Peer, e.Request(lease.Name()))
			m.setFault(renews, nil)
			e.Await(what+" shows a later holder", func() bool {
				e.NoError(call(lease.Name()))
				return lease.Err() != nil
			})
			e.Empty(m.requests(renews))
			m.isLost(lease, abstractions.LostTaken)
			next.IsHeld()
		}
	}},
	{"HealthReportsLeasesAndFailures", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Owner: "owner", Tuning: leasing.Tuning{HealthTimeout: e.Slack}})
		is := func(status leasing.HealthStatus, code int) leasing.Health {
			health := m.Health(ctx)
			e.Equal(status, health.Status, "%+v", health)
			e.Equal([]any{e.Caps.Provider, "owner", status == leasing.Unhealthy}, []any{health.Provider, health.Owner, health.Error != ""})
			answer := httptest.NewRecorder()
			leasing.HealthHandler(m.Manager).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			e.Equal(code, answer.Code)
			return health
		}
		health := is(leasing.Healthy, http.StatusOK)
		e.Equal(leasing.Health{Status: leasing.Healthy, Provider: e.Caps.Provider, Owner: "owner", Ping: health.Ping}, health)

		lease, other := m.get(e.Name(), nil), m.get(e.Name(), nil)
		holder := e.Take(e.Name())
		begun := time.Now()
		next := m.acquire(ctx, holder.Req.Name, nil)
		e.Await("a waiter is counted", func() bool { return m.Health(ctx).Waiting == 1 })
		e.Pause(20 * time.Millisecond)
		health = is(leasing.Healthy, http.StatusOK)
		e.Equal([]int{2, 0, 1}, []int{health.Held, health.Failing, health.Waiting})
		e.GreaterOrEqual(health.OldestWaiter, 20*time.Millisecond)
		e.LessOrEqual(health.OldestWaiter, time.Since(begun))
		holder.Release()
		e.NoError(within(e, 2*e.Slack, next, "the waiter").err)
		health = is(leasing.Healthy, http.StatusOK)
		e.Equal([]any{3, 0, time.Duration(0)}, []any{health.Held, health.Waiting, health.OldestWaiter})

		// FailingSince is the time of the first failure, until a request is answered.
		first := time.Now()
		m.setFault(renews, refusal(errNoReply))
		e.Error(lease.Renew(ctx))
		then := time.Now()
		e.Error(lease.Renew(ctx))
		e.Error(other.Renew(ctx))
		health = is(leasing.Degraded, http.StatusOK)
		e.Equal([]int{3, 2}, []int{health.Held, health.Failing})
		e.False(health.FailingSince.Before(first.Add(-time.Millisecond)) || health.FailingSince.After(then.Add(time.Millisecond)), "FailingSince %v, not from %v to %v", health.FailingSince, first, then)
		m.setFault(renews, nil)
		e.NoError(lease.Renew(ctx))
		health = is(leasing.Degraded, http.StatusOK)
		e.Equal(1, health.Failing)
		e.Zero(health.FailingSince)
		e.NoError(other.Renew(ctx))
		is(leasing.Healthy, http.StatusOK)

		e.Break(abstractions.BreakRequest{Name: lease.Name(), Immediate: true})
		m.awaitReportedLoss(lease)
		health = is(leasing.Degraded, http.StatusOK)
		e.Equal([]any{2, 0, int64(1)}, []any{health.Held, health.Failing, health.Lost})
		e.WithinDuration(time.Now(), health.LastLost, e.Slack)

		m.setFault(inspects, noAnswer)
		caller, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		e.Equal(leasing.Unhealthy, within(e, e.Slack, begin(e, func() leasing.Health { return m.Health(caller) }), "Health, with a bound").Status)
		cancel()
		m.setFault(inspects, lostRequest)
		is(leasing.Unhealthy, http.StatusServiceUnavailable)
		answer := httptest.NewRecorder()
		leasing.HealthHandler(m.Manager).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", nil))
		e.Equal(http.StatusMethodNotAllowed, answer.Code)

		// The ping may take HealthTimeout, a second by default.
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{TTL: e.Long})
			m.setFault(inspects, noAnswer)
			begun := time.Now()
			health := m.Health(ctx)
			took := time.Since(begun)
			e.Equal(leasing.Unhealthy, health.Status)
			e.NotEmpty(health.Error)
			e.GreaterOrEqual(health.Ping, time.Second*95/100)
			if took > time.Second*3/2 {
				return fmt.Errorf("a ping of the default HealthTimeout took %v", took)
			}
			return nil
		})
	}},
	{"NamesAreListed", func(ctx context.Context, e *suite.Env, m *testManager) {
		suite.Ability[abstractions.Lister](e, e.P)
		prefix := e.Name()
		var want []string
		for i := range 3 {
			want = append(want, m.get(fmt.Sprintf("%s/%d", prefix, i), longOptions(e)).Name())
		}
		names := func(o leasing.ListOptions) (all []string) {
			for record, err := range m.List(ctx, o) {
				e.NoError(err)
				e.True(record.Held)
				all = append(all, record.Name)
			}
			slices.Sort(all)
			return slices.Compact(all)
		}
		e.Await("all names are listed", func() bool { return slices.Equal(want, names(leasing.ListOptions{Prefix: prefix, HeldOnly: true})) })
		for range m.List(ctx, leasing.ListOptions{Prefix: prefix}) {
			break // a loop may end early
		}
		e.Empty(names(leasing.ListOptions{Prefix: prefix + "/none"}))
	}},
}
