package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var contextChecks = []suite.Check{
	{Name: "Context_CancelledBeforeTheCallChangesNothing", Run: func(e *suite.Env) {
		ctx, cancel := context.WithCancel(e.T.Context())
		cancel()
		checkCallsEnd(ctx, e, context.Canceled)
	}},
	{Name: "Context_DeadlinePassedBeforeTheCallChangesNothing", Run: func(e *suite.Env) {
		ctx, cancel := context.WithDeadline(e.T.Context(), time.Now().Add(-time.Second))
		defer cancel()
		checkCallsEnd(ctx, e, context.DeadlineExceeded)
	}},
	// The check abandons acquires after different times, cleans up as package
	// leasing does, and then finds each name free.
	{Name: "Trap_T16_NothingLeaksFromAnAbandonedAcquire", Run: func(e *suite.Env) {
		begun := time.Now()
		e.Take(e.Name())
		took := max(time.Since(begun), 100*time.Microsecond)
		for i := range 24 {
			req := e.Request(e.Name())
			req.Metadata = map[string]string{"attempt": fmt.Sprint(i)}
			ctx, cancel := context.WithTimeout(e.T.Context(), took*time.Duration(i)/16)
			_, err := e.P.Acquire(ctx, req)
			cancel()
			if err != nil {
				e.Unknown(err)
			}
			e.CleanUp(e.P, req)
			_, err = e.Try(e.P, req)
			e.Is(err, abstractions.ErrReleased)
			e.IsFree(req.Name)
		}
	}},
	// The check ends contexts, before and during a call, with the causes that other
	// leases and managers use. A provider that returned such a cause would say that
	// the request was not applied, or that this claim has ended.
	{Name: "Trap_T88_CauseOfAContextSaysNothingOfTheClaim", Run: func(e *suite.Env) {
		causes := []error{
			&abstractions.LostError{Reason: abstractions.LostTaken}, abstractions.ErrReleased, abstractions.ErrClosed,
			&abstractions.HeldError{}, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrDenied,
		}
		for _, cause := range causes {
			ctx, cancel := context.WithCancelCause(e.T.Context())
			cancel(cause)
			checkCallsEnd(ctx, e, context.Canceled)
		}
		holder := e.Take(e.Name())
		begun := time.Now()
		holder.Renew(e.Long)
		took := max(time.Since(begun), 100*time.Microsecond)
		for i := range 24 {
			ctx, cancel := context.WithCancelCause(e.T.Context())
			timer := time.AfterFunc(took*time.Duration(i)/16, func() { cancel(causes[i%len(causes)]) })
			if _, err := e.P.Renew(ctx, holder.RenewRequest(e.Long)); err != nil {
				e.Unknown(err, "a renewal whose context ends with the cause %q", causes[i%len(causes)])
			}
			timer.Stop()
			cancel(nil)
		}
		holder.IsHeld()
	}},
	// The check runs renewals in parallel, and abandons every second renewal before it ends.
	{Name: "Trap_T66_AbandonedCallsHarmNoOthers", Run: func(e *suite.Env) {
		begun := time.Now()
		claims := make([]*suite.Claim, 24)
		for i := range claims {
			claims[i] = e.Take(e.Name())
		}
		took := max(time.Since(begun)/24, 100*time.Microsecond)
		suite.SideBySide(len(claims), func(i int) {
			for round := range 4 {
				if i%2 == 0 {
					claims[i].Renew(e.Long) // this renewal is not abandoned
					continue
				}
				ctx, cancel := context.WithTimeout(e.T.Context(), took*time.Duration(round*(i+1))/24)
				if _, err := e.P.Renew(ctx, claims[i].RenewRequest(e.Long)); err != nil {
					e.Unknown(err)
				}
				cancel()
			}
		})
		for _, c := range claims {
			c.Renew(e.Long)
			c.IsHeld()
		}
	}},
	// The contexts are cancelled, since a client library may handle a deadline differently.
	{Name: "Outage_EveryCallEndsWithItsContext", Waits: true, Needs: "Unreachable", Run: func(e *suite.Env) {
		checkOutage(e, func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		})
	}},
	{Name: "Trap_T27_OutageIsNotTakenForAnAnswer", Waits: true, Needs: "Unreachable", Run: func(e *suite.Env) {
		checkOutage(e, context.WithTimeout)
	}},
}

// call calls one method.
type call struct {
	what string
	do   func(ctx context.Context) error
}

// calls returns calls of all methods that take a context: one acquires a fresh
// name, the others use the holder's name. On a working backend, and in this
// order, all of them succeed.
func calls(e *suite.Env, p abstractions.Provider, fresh string, holder *suite.Claim) []call {
	name := holder.Req.Name
	calls := []call{
		{"Acquire", suite.Sending(p.Acquire, e.Request(fresh))},
		{"Acquire again", suite.Sending(p.Acquire, holder.Req)},
		{"Renew", suite.Sending(p.Renew, holder.RenewRequest(e.Long))},
		{"Inspect", suite.Sending(p.Inspect, abstractions.InspectRequest{Name: name})},
	}
	if batcher, ok := abstractions.As[abstractions.BatchRenewer](p); ok {
		calls = append(calls, call{"RenewBatch", suite.Sending(suite.RenewInBatch(batcher), holder.RenewRequest(e.Long))})
	}
	if waiter, ok := abstractions.As[abstractions.Waiter](p); ok {
		calls = append(calls, call{"Wait", suite.Sending(waiter.Wait, abstractions.WaitRequest{Name: name, ID: e.Id()})})
	}
	if lister, ok := abstractions.As[abstractions.WaiterLister](p); ok {
		calls = append(calls, call{"Waiters", suite.Sending(lister.Waiters, abstractions.WaitersRequest{Name: name})})
	}
	if lister, ok := abstractions.As[abstractions.Lister](p); ok {
		calls = append(calls, call{"List", suite.Sending(lister.List, abstractions.ListRequest{Prefix: name})})
	}
	if pinger, ok := abstractions.As[abstractions.Pinger](p); ok {
		calls = append(calls, call{"Ping", pinger.Ping})
	}
	if historian, ok := abstractions.As[abstractions.HistoryReader](p); ok {
		calls = append(calls, call{"History", suite.Sending(historian.History, abstractions.HistoryRequest{Name: name})})
	}
	return append(calls,
		call{"Release", suite.Sending(suite.Releasing(p), holder.ReleaseRequest())},
		call{"Break", suite.Sending(p.Break, abstractions.BreakRequest{Name: name, Immediate: true})},
	)
}

func checkCallsEnd(ctx context.Context, e *suite.Env, cause error) {
	holder := e.Take(e.Name())
	fresh := e.Name()
	for _, call := range calls(e, e.P, fresh, holder) {
		e.Ended(call.do(ctx), cause, call.what)
	}
	holder.IsHeld()
	e.False(e.Inspect(holder.Req.Name).Breaking)
	record := e.Inspect(fresh)
	e.False(record.Held)
	e.Zero(record.Token)
	holder.Renew(e.Long)
}

// checkOutage makes all calls at once to a backend that does not answer. Each call gets a
// context that ends soon.
func checkOutage(e *suite.Env, ending func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	const soon = 200 * time.Millisecond
	p := e.Unreachable(e.T)
	e.T.Cleanup(func() { p.Close() })
	calls := calls(e, p, e.Name(), &suite.Claim{E: e, P: p, Req: e.Request(e.Name()), Grant: abstractions.Grant{Token: 1}})
	suite.SideBySide(len(calls), func(i int) {
		ctx, cancel := ending(e.T.Context(), soon)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- calls[i].do(ctx) }()
		select {
		case err := <-done:
			checkOutageError(e, calls[i].what, err)
		case <-time.After(soon + e.Slack):
			e.Fail("does not end with its context: " + calls[i].what)
		}
	})
}

// checkOutageError requires that err reports an outage. A registration of a waiter may be
// local, so it may also succeed.
func checkOutageError(e *suite.Env, what string, err error) {
	if what == "Wait" && err == nil {
		return
	}
	e.Unknown(err, what)
	e.False(errors.Is(err, abstractions.ErrThrottled), "%s: the backend has not throttled: %v", what, err)
}
