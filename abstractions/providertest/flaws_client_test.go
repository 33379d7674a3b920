package providertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// clientFlaws are about contexts, outages, closing, capabilities, and waiters that leave or stay.
var clientFlaws = []flaw{
	{
		name: "wake-ups are on their way to one that has left",
		apply: func(f *fake) {
			f.wait = func(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
				from, err := f.server.Wait(ctx, req)
				to := make(chan struct{}, 1)
				go func() {
					select {
					case <-from.C:
						to <- struct{}{}
					case <-ctx.Done():
					}
				}()
				return abstractions.Wakeups{C: to}, err
			}
		},
		failing: []string{"Wait_AnUnusedWakeupIsPassedOn"},
	},
	{
		name: "who waits for long is forgotten",
		apply: func(f *fake) {
			f.onWaiters(func(_ string, list *[]abstractions.Waiting) {
				*list = slices.DeleteFunc(*list, func(w abstractions.Waiting) bool { return w.Now.Sub(w.Since) > time.Second })
			})
		},
		failing: []string{"Waiters_AreNotForgottenWhileTheyWait"},
	},
	{
		name:    "who waited by a client that is closed is still listed",
		apply:   func(f *fake) { f.leave = func() {} },
		failing: []string{"Waiters_ThoseOfAClosedClientAreNotListed"},
	},
	{
		name:    "an acquire that was given up is sent",
		apply:   func(f *fake) { f.acquire = ignoringEnd(f.server.Acquire) },
		failing: []string{"Context_CancelledBeforeTheCallChangesNothing", "Context_DeadlinePassedBeforeTheCallChangesNothing"},
	},
	{
		name: "a break that was given up is sent, and says that it was not",
		apply: func(f *fake) {
			f.breakLease = func(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
				result, _ := f.server.Break(context.WithoutCancel(ctx), req)
				return result, ctx.Err()
			}
		},
		failing: []string{"Context_CancelledBeforeTheCallChangesNothing", "Context_DeadlinePassedBeforeTheCallChangesNothing"},
	},
	{
		name: "a context that has ended means held",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if ctx.Err() != nil {
					err = errors.Join(ctx.Err(), &abstractions.HeldError{})
				}
				return grant, err
			}
		},
		failing: []string{"Context_CancelledBeforeTheCallChangesNothing"},
	},
	{
		name: "a renewal that is given up reports the cause of its context",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				grant, err := f.server.Renew(ctx, req)
				if ctx.Err() != nil {
					err = errors.Join(ctx.Err(), context.Cause(ctx))
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T88_CauseOfAContextSaysNothingOfTheClaim"},
	},
	{
		name: "an abandoned acquire leaves a lease behind",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				grant, err := f.server.Acquire(ctx, req)
				if err != nil && ctx.Err() != nil {
					req.ID = alias(req.ID)
					f.server.Acquire(context.WithoutCancel(ctx), req)
				}
				return grant, err
			}
		},
		failing: []string{"Trap_T16_NothingLeaksFromAnAbandonedAcquire"},
	},
	{
		name: "a renewal that is given up takes the next one with it",
		apply: func(f *fake) {
			var poisoned atomic.Value
			poisoned.Store("")
			f.renew = func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
				if ctx.Err() != nil {
					poisoned.Store(req.ID)
				} else if id := poisoned.Load(); id != "" && id != req.ID {
					return abstractions.Grant{}, context.DeadlineExceeded
				}
				return f.server.Renew(ctx, req)
			}
		},
		failing: []string{"Trap_T66_AbandonedCallsHarmNoOthers"},
	},
	{
		name: "a silent server is waited for",
		apply: func(f *fake) {
			f.release = func(context.Context, abstractions.ReleaseRequest) error {
				time.Sleep(time.Second)
				return abstractions.ErrUnavailable
			}
		},
		failing: []string{"Outage_EveryCallEndsWithItsContext", "Trap_T27_OutageIsNotTakenForAnAnswer"},
		real:    true,
	},
	{
		name: "an outage means lost",
		apply: func(f *fake) {
			f.renew = func(ctx context.Context, _ abstractions.RenewRequest) (abstractions.Grant, error) {
				<-ctx.Done()
				return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostGone, Err: ctx.Err()}
			}
		},
		failing: []string{"Trap_T27_OutageIsNotTakenForAnAnswer", "Outage_EveryCallEndsWithItsContext"},
	},
	{
		name:    "a ping does not ask the server",
		apply:   func(f *fake) { f.ping = func(context.Context) error { return nil } },
		failing: []string{"Capabilities_PingReportsAnOutage"},
	},
	{
		name:    "a ping fails",
		apply:   func(f *fake) { f.ping = func(context.Context) error { return abstractions.ErrUnavailable } },
		failing: []string{"Capabilities_PingAnswers"},
	},
	{
		name:    "a closed client works on",
		apply:   func(f *fake) { f.close = func() error { return nil } },
		failing: []string{"Close_EveryMethodIsClosed", "Close_DuringCalls"},
	},
	{
		name: "a closed client cannot be closed again",
		apply: func(f *fake) {
			f.close = func() error {
				if f.closed.Swap(true) {
					return errors.New("closed twice")
				}
				return nil
			}
		},
		failing: []string{"Close_EveryMethodIsClosed"},
	},
	{
		name: "closing releases what is held",
		apply: func(f *fake) {
			var last atomic.Value
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				last.Store(req.Name)
				return f.server.Acquire(ctx, req)
			}
			f.close = func() error {
				if name, ok := last.Load().(string); ok {
					f.server.Break(context.Background(), abstractions.BreakRequest{Name: name, Immediate: true})
				}
				f.closed.Store(true)
				return nil
			}
		},
		failing: []string{"Close_ReleasesNothing"},
	},
	{
		name: "a call of a closed client reports that the name is held",
		apply: func(f *fake) {
			f.acquire = func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
				time.Sleep(time.Millisecond)
				if f.closed.Load() {
					return abstractions.Grant{}, &abstractions.HeldError{}
				}
				return f.server.Acquire(ctx, req)
			}
		},
		failing: []string{"Close_DuringCalls"},
	},
	{
		name: "closing leaves a goroutine",
		apply: func(f *fake) {
			f.wait = func(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
				leaked.Go(func() { time.Sleep(2 * time.Second) })
				return f.server.Wait(ctx, req)
			}
		},
		failing: []string{"Close_LeavesNoGoroutines"},
		real:    true,
	},
	{
		name: "facts change",
		apply: func(f *fake) {
			var asked atomic.Int64
			f.capabilities = func() abstractions.Capabilities {
				c := f.server.Capabilities()
				c.MinTTL += time.Duration(asked.Add(1))
				return c
			}
		},
		failing: []string{"Capabilities_AreFacts", "Close_EveryMethodIsClosed"},
	},
	{
		name: "the time left is reported, and said to be unknown",
		apply: func(f *fake) {
			f.capabilities = func() abstractions.Capabilities {
				c := f.server.Capabilities()
				c.RemainingKnown = false
				return c
			}
		},
		failing: []string{"Capabilities_RemainingIsKnown"},
	},
	{
		name: "an inspection shows what the one before has shown",
		apply: func(f *fake) {
			shown := map[string]abstractions.Record{}
			f.inspect = func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if record, ok := shown[req.Name]; ok {
					return record, nil
				}
				record, err := f.server.Inspect(ctx, req)
				shown[req.Name] = record
				return record, err
			}
		},
		failing: []string{"Capabilities_ReadsShowTheLatestWrite"},
	},
	{
		name: "an ability is answered with nothing",
		apply: func(f *fake) {
			f.as = func(target any) bool {
				_, waiter := target.(*abstractions.Waiter)
				return waiter || f.answer(target)
			}
		},
		failing: []string{"Trap_T53_AbilitiesAreAnsweredOrHidden"},
	},
	{
		name:    "every ability is claimed",
		apply:   func(f *fake) { f.as = func(target any) bool { f.answer(target); return true } },
		failing: []string{"Trap_T53_AbilitiesAreAnsweredOrHidden"},
	},
}

// leaked counts the goroutines that flaws have left behind, until they end.
var leaked sync.WaitGroup

// ignoringEnd makes a method ignore the end of its context.
func ignoringEnd[Req, Res any](call func(context.Context, Req) (Res, error)) func(context.Context, Req) (Res, error) {
	return func(ctx context.Context, req Req) (Res, error) { return call(context.WithoutCancel(ctx), req) }
}
