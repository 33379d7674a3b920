package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var contextChecks = []check{
	{name: "Context_CancelledBeforeTheCallChangesNothing", run: func(e *env) {
		ctx, cancel := context.WithCancel(e.t.Context())
		cancel()
		e.callsEnd(ctx, context.Canceled)
	}},
	{name: "Context_DeadlinePassedBeforeTheCallChangesNothing", run: func(e *env) {
		ctx, cancel := context.WithDeadline(e.t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		e.callsEnd(ctx, context.DeadlineExceeded)
	}},
	// It gives up on acquires at all moments of their way, cleans up
	// as package leasing does, and then finds each name free.
	{name: "Trap_T16_NothingLeaksFromAnAbandonedAcquire", run: func(e *env) {
		begun := time.Now()
		e.take(e.name())
		took := max(time.Since(begun), 100*time.Microsecond)
		for i := range 24 {
			req := e.request(e.name())
			req.Metadata = map[string]string{"attempt": fmt.Sprint(i)}
			ctx, cancel := context.WithTimeout(e.t.Context(), took*time.Duration(i)/16)
			_, err := e.p.Acquire(ctx, req)
			cancel()
			if err != nil {
				e.unknown(err)
			}
			e.cleanUp(e.p, req)
			_, err = e.try(e.p, req)
			e.is(err, abstractions.ErrReleased)
			e.isFree(req.Name)
		}
	}},
	// It ends contexts, before and during a call, with the causes that other leases
	// and managers use. A provider that returned such a cause would say that the
	// request was not applied, or that this claim has ended.
	{name: "Trap_T88_CauseOfAContextSaysNothingOfTheClaim", run: func(e *env) {
		causes := []error{
			&abstractions.LostError{Reason: abstractions.LostTaken}, abstractions.ErrReleased, abstractions.ErrClosed,
			&abstractions.HeldError{}, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrDenied,
		}
		for _, cause := range causes {
			ctx, cancel := context.WithCancelCause(e.t.Context())
			cancel(cause)
			e.callsEnd(ctx, context.Canceled)
		}
		holder := e.take(e.name())
		begun := time.Now()
		holder.renew(e.long)
		took := max(time.Since(begun), 100*time.Microsecond)
		for i := range 24 {
			ctx, cancel := context.WithCancelCause(e.t.Context())
			timer := time.AfterFunc(took*time.Duration(i)/16, func() { cancel(causes[i%len(causes)]) })
			if _, err := e.p.Renew(ctx, holder.renewRequest(e.long)); err != nil {
				e.unknown(err, "a renewal whose context ends with the cause %q", causes[i%len(causes)])
			}
			timer.Stop()
			cancel(nil)
		}
		holder.isHeld()
	}},
	// It runs renewals side by side, every second of which
	// is given up in the middle.
	{name: "Trap_T66_AbandonedCallsHarmNoOthers", run: func(e *env) {
		begun := time.Now()
		claims := make([]*claim, 24)
		for i := range claims {
			claims[i] = e.take(e.name())
		}
		took := max(time.Since(begun)/24, 100*time.Microsecond)
		sideBySide(len(claims), func(i int) {
			for round := range 4 {
				if i%2 == 0 {
					claims[i].renew(e.long) // it has not given up
					continue
				}
				ctx, cancel := context.WithTimeout(e.t.Context(), took*time.Duration(round*(i+1))/24)
				if _, err := e.p.Renew(ctx, claims[i].renewRequest(e.long)); err != nil {
					e.unknown(err)
				}
				cancel()
			}
		})
		for _, c := range claims {
			c.renew(e.long)
			c.isHeld()
		}
	}},
	// They are cancelled, since of a deadline a client library may think that it has more to say.
	{name: "Outage_EveryCallEndsWithItsContext", waits: true, needs: "Unreachable", run: func(e *env) {
		e.outage(func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		})
	}},
	{name: "Trap_T27_OutageIsNotTakenForAnAnswer", waits: true, needs: "Unreachable", run: func(e *env) {
		e.outage(context.WithTimeout)
	}},
}

// call is one method on one claim.
type call struct {
	what string
	do   func(ctx context.Context) error
}

// calls are all methods that take a context: one acquires a fresh name, the
// others are about the holder's. On a working backend, and in this order, all
// of them succeed.
func (e *env) calls(p abstractions.Provider, fresh string, holder *claim) []call {
	name := holder.req.Name
	calls := []call{
		{"Acquire", sending(p.Acquire, e.request(fresh))},
		{"Acquire again", sending(p.Acquire, holder.req)},
		{"Renew", sending(p.Renew, holder.renewRequest(e.long))},
		{"Inspect", sending(p.Inspect, abstractions.InspectRequest{Name: name})},
	}
	if batcher, ok := abstractions.As[abstractions.BatchRenewer](p); ok {
		calls = append(calls, call{"RenewBatch", sending(renewInBatch(batcher), holder.renewRequest(e.long))})
	}
	if waiter, ok := abstractions.As[abstractions.Waiter](p); ok {
		calls = append(calls, call{"Wait", sending(waiter.Wait, abstractions.WaitRequest{Name: name, ID: e.id()})})
	}
	if lister, ok := abstractions.As[abstractions.WaiterLister](p); ok {
		calls = append(calls, call{"Waiters", sending(lister.Waiters, abstractions.WaitersRequest{Name: name})})
	}
	if lister, ok := abstractions.As[abstractions.Lister](p); ok {
		calls = append(calls, call{"List", sending(lister.List, abstractions.ListRequest{Prefix: name})})
	}
	if pinger, ok := abstractions.As[abstractions.Pinger](p); ok {
		calls = append(calls, call{"Ping", pinger.Ping})
	}
	if historian, ok := abstractions.As[abstractions.HistoryReader](p); ok {
		calls = append(calls, call{"History", sending(historian.History, abstractions.HistoryRequest{Name: name})})
	}
	return append(calls,
		call{"Release", sending(releasing(p), holder.releaseRequest())},
		call{"Break", sending(p.Break, abstractions.BreakRequest{Name: name, Immediate: true})},
	)
}

func (e *env) callsEnd(ctx context.Context, cause error) {
	holder := e.take(e.name())
	fresh := e.name()
	for _, call := range e.calls(e.p, fresh, holder) {
		e.ended(call.do(ctx), cause, call.what)
	}
	holder.isHeld()
	e.False(e.inspect(holder.req.Name).Breaking)
	record := e.inspect(fresh)
	e.False(record.Held)
	e.Zero(record.Token)
	holder.renew(e.long)
}

// outage makes all calls at once to a backend that does not answer. Each gets a context
// that ends soon.
func (e *env) outage(ending func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	const soon = 200 * time.Millisecond
	p := e.h.Unreachable(e.t)
	e.t.Cleanup(func() { p.Close() })
	calls := e.calls(p, e.name(), &claim{e: e, p: p, req: e.request(e.name()), grant: abstractions.Grant{Token: 1}})
	sideBySide(len(calls), func(i int) {
		ctx, cancel := ending(e.t.Context(), soon)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- calls[i].do(ctx) }()
		select {
		case err := <-done:
			e.mayFail(calls[i].what, err)
		case <-time.After(soon + e.h.Slack):
			e.Fail("does not end with its context: " + calls[i].what)
		}
	})
}

// mayFail requires that err reports an outage. A registration of a waiter may be
// local, so it may also succeed.
func (e *env) mayFail(what string, err error) {
	if what == "Wait" && err == nil {
		return
	}
	e.unknown(err, what)
	e.False(errors.Is(err, abstractions.ErrThrottled), "%s: the backend has not throttled: %v", what, err)
}
