package managersuite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// pauses returns the times between the first n+1 requests of a waiter.
func (m *testManager) pauses(n int) (pauses []time.Duration) {
	m.e.Await(fmt.Sprintf("%d requests of a waiter", n+1), func() bool { return len(m.requests(acquires)) > n })
	sent := m.requests(acquires)
	for i := range n {
		pauses = append(pauses, sent[i+1].at.Sub(sent[i].at))
	}
	return pauses
}

var realPauseChecks = []managerCheck{
	// Without jitter the pauses of a waiter double, from 25 ms to a second.
	{"AWaiterThatPollsBacksOff", func(ctx context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{TTL: e.Long}, without(waits))
			holder := e.Take(e.Name())
			leaves, leave := context.WithCancel(ctx)
			defer leave()
			waits := m.acquire(leaves, holder.Req.Name, nil)
			want := 25 * time.Millisecond
			for i, pause := range m.pauses(7) {
				e.GreaterOrEqual(pause, want, "pause %d of a waiter", i)
				if most := want*5/4 + e.Short/20; pause > most {
					return fmt.Errorf("pause %d of a waiter: %v, not %v", i, pause, want)
				}
				want = min(2*want, time.Second)
			}
			leave()
			e.ErrorIs(within(e, e.Slack, waits, "a waiter that leaves").err, context.Canceled)
			holder.Release()
			return nil
		})
	}},
	// The options of the manager set the bounds and the jitter.
	{"PollsKeepTheirBounds", func(ctx context.Context, e *suite.Env, _ *testManager) {
		tuning := leasing.Tuning{MinPoll: 80 * time.Millisecond, MaxPoll: 160 * time.Millisecond, Random: func() float64 { return 0.99 }}
		m := manage(e, e.P, leasing.Options{TTL: e.Long, Tuning: tuning}, without(waits))
		holder := e.Take(e.Name())
		leaves, leave := context.WithCancel(ctx)
		defer leave()
		m.acquire(leaves, holder.Req.Name, nil)
		for i, pause := range m.pauses(4) {
			e.GreaterOrEqual(pause, tuning.MinPoll/2, "pause %d of a waiter, of which jitter takes at most a half", i)
		}
		leave()

		// A waiter with wake-ups polls rarely.
		suite.Ability[abstractions.Waiter](e, e.P)
		m = manage(e, e.P, leasing.Options{TTL: e.Long, Tuning: leasing.Tuning{MinPoll: time.Millisecond, MaxPoll: 200 * time.Millisecond}})
		patient, leave := context.WithCancel(ctx)
		defer leave()
		m.acquire(patient, holder.Req.Name, nil)
		e.Await("a registration", func() bool { return len(m.requests(waits)) > 0 })
		for _, pause := range m.pauses(3)[1:] { // the waiter sends another request when it is registered
			e.GreaterOrEqual(pause, 200*time.Millisecond, "a pause of a waiter with wake-ups")
		}
	}},
	// In this check registrations fail, or end.
	{"AWaiterWithoutWakeupsPolls", func(ctx context.Context, e *suite.Env, _ *testManager) {
		suite.Ability[abstractions.Waiter](e, e.P)
		broken := func(x *exchange) error {
			err := x.pass()
			ended := make(chan struct{})
			close(ended)
			x.reply = abstractions.Wakeups{C: ended}
			return err
		}
		for _, b := range []fault{broken, lostRequest, refusal(abstractions.ErrDenied), noAnswer} {
			log := newLogHandler()
			m := manage(e, e.P, leasing.Options{TTL: e.Long, Logger: slog.New(log), Tuning: leasing.Tuning{MaxPoll: 100 * time.Millisecond}})
			m.setFault(waits, b)
			holder := e.Take(e.Name())
			next := m.acquire(ctx, holder.Req.Name, nil)
			e.Await("the waiter polls", func() bool { return len(m.requests(acquires)) > 4 })
			e.Empty(next)
			holder.Release()
			got := within(e, e.Slack, next, "a waiter without wake-ups")
			e.NoError(got.err)
			e.NoError(got.lease.Release(ctx))
			e.NoError(m.Close(ctx))
			e.Empty(m.eventLog.events(leasing.EventAcquireFailed), "the backend has answered each acquire")
		}
	}},
	{"ARefusalEndsAWaitInTime", func(ctx context.Context, e *suite.Env, _ *testManager) {
		timeout := 400 * time.Millisecond
		m := manage(e, e.P, leasing.Options{TTL: e.Long, RefusalTimeout: timeout, Tuning: leasing.Tuning{MaxPoll: 50 * time.Millisecond}}, without(waits))
		denied := fmt.Errorf("%w: %w", abstractions.ErrDenied, errMine)
		m.setFault(acquires, refusal(denied))
		name := e.Name()
		begun := time.Now()
		got := within(e, timeout+e.Slack, m.acquire(ctx, name, nil), "the end of a wait that is refused")
		checkError(e, got.err, "acquire", name, abstractions.ErrDenied, errMine)
		e.GreaterOrEqual(got.at.Sub(begun), timeout, "Options.RefusalTimeout")
		e.Greater(len(m.requests(acquires)), 2)
		checkError(e, m.try(ctx, name), "acquire", name, abstractions.ErrDenied, errMine)

		// Any other answer restarts Options.RefusalTimeout.
		holder := e.Take(name)
		begun = time.Now()
		var last time.Time
		m.setFault(acquires, func(x *exchange) error {
			if time.Since(begun) > timeout*3/4 && last.IsZero() {
				last = time.Now()
				return x.pass()
			}
			return denied
		})
		got = within(e, 2*timeout+e.Slack, m.acquire(ctx, name, nil), "the end of a wait that is refused")
		e.ErrorIs(got.err, abstractions.ErrDenied)
		e.GreaterOrEqual(got.at.Sub(last), timeout, "Options.RefusalTimeout, from the last other answer")
		holder.IsHeld()
	}},
	{"AWaitReportsTheObstacle", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long}, without(waits))
		holder := e.Take(e.Name())
		name := holder.Req.Name
		ended, end := context.WithCancelCause(ctx)
		head, behind := m.acquire(ended, name, nil), m.acquire(ended, name, nil)
		e.Await("both wait", func() bool { return m.Health(ctx).Waiting == 2 })
		end(errMine)
		obstacles := 0
		for _, done := range []<-chan acquireResult{head, behind} {
			got := within(e, e.Slack, done, "the end of a wait")
			checkError(e, got.err, "acquire", name, errMine)
			if held := (*abstractions.HeldError)(nil); errors.As(got.err, &held) {
				e.Equal(holder.Token(), held.Holder.Token)
				e.False(held.ByThisManager)
				obstacles++
			}
		}
		e.Equal(1, obstacles, "the head has asked")

		// The error of a wait also reports an outage.
		m.setFault(acquires, refusal(fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errMine)))
		caller, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		checkError(e, within(e, e.Slack, m.acquire(caller, name, nil), "the end of a wait").err, "acquire", name, context.DeadlineExceeded, abstractions.ErrUnavailable, errMine)
		limited := &leasing.AcquireOptions{WaitLimit: 200 * time.Millisecond}
		got := within(e, e.Slack, m.acquire(ctx, name, limited), "the limit of a wait")
		checkError(e, got.err, "acquire", name, abstractions.ErrUnavailable, errMine)
		e.NotErrorIs(got.err, context.DeadlineExceeded, "the limit is no context of the caller's")
		m.setFault(acquires, nil)

		// The error of a wait also says whether the holder is a lease of the same manager.
		own := m.get(e.Name(), longOptions(e))
		got = within(e, e.Slack, m.acquire(ctx, own.Name(), limited), "the limit of a wait")
		held := heldBy(e, got.err)
		e.Equal([]any{true, own.Token()}, []any{held.ByThisManager, held.Holder.Token})
		waiting := m.acquire(ctx, own.Name(), nil)
		e.Await("one waits", func() bool { return m.Health(ctx).Waiting == 1 })
		e.NoError(own.Release(ctx))
		e.NoError(within(e, e.Slack, waiting, "a waiter of the manager that has released").err)
	}},
	// In this check two managers poll, and acquire the same name many times.
	{"ALoopLetsOthersIn", func(ctx context.Context, e *suite.Env, _ *testManager) {
		ctx, cancel := context.WithTimeout(ctx, suite.CallTimeout)
		defer cancel()
		name := e.Name()
		turns := make(chan int, 1)
		loop := func(i int, p abstractions.Provider) <-chan error {
			m := manage(e, p, leasing.Options{TTL: e.Long}, without(waits))
			return begin(e, func() error {
				for {
					lease, err := m.Acquire(ctx, name)
					if err != nil {
						return err
					}
					select {
					case turns <- i:
					case <-ctx.Done():
					}
					e.Pause(5 * time.Millisecond)
					e.NoError(lease.Release(context.WithoutCancel(ctx)))
				}
			})
		}
		one, two := loop(0, e.P), loop(1, e.Peer)
		for had := [2]int{}; min(had[0], had[1]) < 3; {
			select {
			case i := <-turns:
				had[i]++
			case <-ctx.Done():
				e.Fail(fmt.Sprintf("two loops had the name %v times", had))
			}
		}
		cancel()
		for _, ended := range []<-chan error{one, two} {
			e.ErrorIs(within(e, e.Slack, ended, "a loop"), context.Canceled)
		}
	}},
	{"RenewalsKeepTheirCadence", func(_ context.Context, e *suite.Env, _ *testManager) {
		tenth := e.Short / 10
		for _, c := range []struct {
			manager leasing.Options
			lease   leasing.AcquireOptions
		}{
			{leasing.Options{RenewFraction: 0.1}, leasing.AcquireOptions{}},
			{leasing.Options{RenewCadence: tenth}, leasing.AcquireOptions{}},
			{leasing.Options{RenewFraction: 0.5}, leasing.AcquireOptions{RenewCadence: tenth}},
			{leasing.Options{RenewCadence: e.Short / 2}, leasing.AcquireOptions{RenewFraction: 0.1}},
		} {
			retryOnStall(e, func() error {
				m := manage(e, e.P, c.manager, without(batches))
				lease, err := m.With(c.lease).TryAcquire(e.T.Context(), e.Name())
				if err != nil {
					return err
				}
				e.Await("three renewals", func() bool { return lease.Err() != nil || lease.Renewals() >= 3 })
				if err := lease.Err(); err != nil {
					return err
				}
				last := m.requests(acquires)[0].at
				for _, renewal := range m.requests(renews) {
					if pause := renewal.at.Sub(last); pause < tenth*9/10 || pause > 2*tenth {
						return fmt.Errorf("a renewal after %v, where %v was asked for", pause, tenth)
					}
					last = renewal.at
				}
				return lease.Release(e.T.Context())
			})
		}
	}},
	{"RenewalsEndAtTheirLimit", func(ctx context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{RenewFraction: 0.1}, without(batches))
			begun := time.Now()
			lease, err := m.With(leasing.AcquireOptions{MaxRenewals: 2}).TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			m.awaitEnd(lease, 2*e.Short+e.Slack)
			sent := m.requests(renews)
			if len(sent) != 2 || lease.Renewals() != 2 {
				return fmt.Errorf("%d renewals, of which %d succeeded", len(sent), lease.Renewals())
			}
			m.isLost(lease, abstractions.LostRenewalLimit)
			if lasted := time.Since(begun); lasted < e.Short || lasted > e.Short*14/10 {
				return fmt.Errorf("a lease of %v that was renewed twice at a tenth lasted for %v", e.Short, lasted)
			}
			return nil
		})
		m := manage(e, e.P, leasing.Options{})
		lease := m.get(e.Name(), &leasing.AcquireOptions{MaxRenewals: 1, NoAutoRenew: true, TTL: e.Long})
		e.NoError(lease.Renew(ctx))
		m.setFault(renews, nil)
		checkInvalid(e, "AcquireOptions.MaxRenewals", lease.Renew(ctx))
		m.isAlive(lease)
		_, err := lease.HandOver(ctx)
		e.NoError(err, "HandOver needs no renewal that is used up")
		e.Empty(m.requests(renews))
	}},
	// In this check renewals are slow, and more are due than may be sent at a time.
	{"RenewalsKeepTheirBounds", func(ctx context.Context, e *suite.Env, _ *testManager) {
		cadence := 300 * time.Millisecond
		options := leasing.Options{TTL: e.Long, RenewCadence: cadence, Tuning: leasing.Tuning{RenewConcurrency: 2, RenewBatch: 3}}
		m := manage(e, e.P, options)
		leases := m.leasesDueTogether(9)
		m.awaitRenewals(leases, 4)
		for _, batch := range m.requests(batches) {
			e.LessOrEqual(len(batch.req.([]abstractions.RenewRequest)), 3, "Tuning.RenewBatch")
		}
		e.Empty(m.eventLog.events(leasing.EventRenewalFailed, leasing.EventLost))
		retryOnStall(e, func() error {
			m = manage(e, e.P, options, without(batches))
			leases = m.leasesDueTogether(9)
			var now, most atomic.Int64
			m.setFault(renews, func(x *exchange) error {
				if n := now.Add(1); n > 2 {
					most.Store(n)
				}
				defer now.Add(-1)
				e.Pause(20 * time.Millisecond)
				return x.pass()
			})
			m.awaitRenewals(leases, 5)
			e.Zero(most.Load(), "more requests at a time than Tuning.RenewConcurrency")
			last := map[string]time.Time{}
			for _, renewal := range m.requests(renews) {
				name := renewal.req.(abstractions.RenewRequest).Name
				if pause := renewal.at.Sub(last[name]); !last[name].IsZero() && pause > cadence*3/2 {
					return fmt.Errorf("%v from one renewal of %q to the next", pause, name)
				}
				last[name] = renewal.at
			}
			return nil
		})
		for _, lease := range leases {
			e.NoError(lease.Release(ctx))
		}
	}},
	// In this check the last item of each of the first batches has an unexpected answer.
	{"ABatchMayAnswerForSome", func(_ context.Context, e *suite.Env, _ *testManager) {
		suite.Ability[abstractions.BatchRenewer](e, e.P)
		m := manage(e, e.P, leasing.Options{TTL: e.Long, RenewCadence: 300 * time.Millisecond})
		ways := []func(results []abstractions.RenewResult, i int) []abstractions.RenewResult{
			func(results []abstractions.RenewResult, i int) []abstractions.RenewResult { return results[:i] },
			func(results []abstractions.RenewResult, i int) []abstractions.RenewResult {
				results[i] = abstractions.RenewResult{}
				return results
			},
			func(results []abstractions.RenewResult, i int) []abstractions.RenewResult {
				results[i].Err = errNoReply
				return results
			},
			func(results []abstractions.RenewResult, i int) []abstractions.RenewResult {
				results[i].Grant.ID = abstractions.NewID()
				return results
			},
		}
		var mu sync.Mutex
		bent, unknown := 0, map[string]bool{}
		leases := m.leasesDueTogether(9) // before setFault, since these renewals may be sent as a batch too
		m.setFault(batches, func(x *exchange) error {
			err := x.pass()
			results, reqs := x.reply.([]abstractions.RenewResult), x.req.([]abstractions.RenewRequest)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && bent < len(ways) {
				x.reply = ways[bent](results, len(reqs)-1)
				bent++
				unknown[reqs[len(reqs)-1].Name] = true
			}
			return err
		})
		e.Await("batches", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return bent == len(ways)
		})
		e.Await("the leases are renewed", func() bool {
			return m.Health(e.T.Context()).Failing == 0
		})
		failed := map[string]bool{}
		e.Await("an event for each item", func() bool {
			for _, event := range m.eventLog.events(leasing.EventRenewalFailed) {
				e.ErrorIs(event.Err, abstractions.ErrUnavailable)
				e.True(event.WillRetry)
				failed[event.Name] = true
			}
			return len(failed) >= len(unknown)
		})
		e.Equal(unknown, failed, "leases that batches have not renewed")
		for _, lease := range leases {
			m.isAlive(lease)
		}
		e.Empty(m.eventLog.events(leasing.EventLost))
	}},
}

// leasesDueTogether acquires leases whose renewals are due at about the same time.
func (m *testManager) leasesDueTogether(n int) (leases []*leasing.Lease) {
	for range n {
		leases = append(leases, m.get(m.e.Name(), nil))
	}
	suite.SideBySide(n, func(i int) { m.e.NoError(leases[i].Renew(m.e.T.Context())) })
	return leases
}

// awaitRenewals waits until each lease was renewed the given number of times.
func (m *testManager) awaitRenewals(leases []*leasing.Lease, times int) {
	m.e.Await(fmt.Sprintf("%d renewals of each lease", times), func() bool {
		return !slices.ContainsFunc(leases, func(lease *leasing.Lease) bool { return lease.Renewals() < times })
	})
}
