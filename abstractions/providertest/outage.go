package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var outageChecks = []check{
	// It cancels rather than set a deadline, of which a
	// client library may think that it has more to say.
	{name: "Outage_EveryCallEndsWithItsContext", waits: true, needs: "Unreachable", run: func(e *env) {
		for _, call := range e.outage() {
			ctx, cancel := context.WithCancel(e.t.Context())
			timer := time.AfterFunc(200*time.Millisecond, cancel)
			done := make(chan error, 1)
			go func() { done <- call.do(ctx) }()
			select {
			case err := <-done:
				e.mayFail(call.what, err)
			case <-time.After(200*time.Millisecond + e.h.Slack):
				e.Fail("does not end when its context is cancelled: " + call.what)
			}
			timer.Stop()
			cancel()
		}
	}},
	{name: "Trap_T27_OutageIsNotTakenForAnAnswer", waits: true, needs: "Unreachable", run: func(e *env) {
		for _, call := range e.outage() {
			ctx, cancel := context.WithTimeout(e.t.Context(), 200*time.Millisecond)
			begun := time.Now()
			err := call.do(ctx)
			took := time.Since(begun)
			cancel()
			e.LessOrEqual(took, 200*time.Millisecond+e.h.Slack, call.what)
			e.mayFail(call.what, err)
		}
	}},
}

// outage returns all calls to a backend that does not answer.
func (e *env) outage() []call {
	p := e.h.Unreachable(e.t)
	e.t.Cleanup(func() { p.Close() })
	holder := &claim{e: e, p: p, req: e.request(e.name()), grant: abstractions.Grant{Token: 1}}
	return e.calls(p, e.name(), holder)
}

// mayFail says that err tells of an outage. A registration of a waiter may be
// local, so it may also succeed.
func (e *env) mayFail(what string, err error) {
	if what == "Wait" && err == nil {
		return
	}
	e.unknown(err, what)
	e.False(errors.Is(err, abstractions.ErrThrottled), "%s: nobody has said so: %v", what, err)
}
