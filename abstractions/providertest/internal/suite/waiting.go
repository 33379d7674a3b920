package suite

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Waiting is a registration.
type Waiting struct {
	e     *Env
	P     abstractions.Provider
	Req   abstractions.AcquireRequest
	Hints <-chan struct{}
	Leave context.CancelFunc
}

// Wait registers a new claim as a waiter for a held name, and sends an acquire,
// which is refused.
func (e *Env) Wait(p abstractions.Provider, name string) *Waiting {
	return e.WaitFor(p, e.Request(name))
}

// WaitFor is Wait for a given claim.
func (e *Env) WaitFor(p abstractions.Provider, req abstractions.AcquireRequest) *Waiting {
	w := e.Register(p, req)
	_, err := e.Try(p, w.Req)
	e.Held(err)
	return w
}

// Register registers a claim as a waiter.
func (e *Env) Register(p abstractions.Provider, req abstractions.AcquireRequest) *Waiting {
	waiter := Ability[abstractions.Waiter](e, p)
	ctx, cancel := context.WithCancel(e.T.Context())
	e.T.Cleanup(cancel)
	w := &Waiting{e: e, P: p, Req: req, Leave: cancel}
	wakeups, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: req.Name, ID: req.ID, Owner: req.Owner})
	e.NoError(err)
	e.NotNil(wakeups.C)
	e.Equal(1, cap(wakeups.C), "Wakeups.C has a buffer of one")
	w.Hints = wakeups.C
	return w
}

// Hinted waits for a wake-up.
func (w *Waiting) Hinted() {
	select {
	case _, open := <-w.Hints:
		w.e.True(open, "closed while its context lives")
	case <-time.After(w.e.Slack):
		w.e.Fail("no hint within " + w.e.Slack.String())
	}
}

// Served acquires the name, and ends the registration.
func (w *Waiting) Served() *Claim {
	defer w.Leave()
	return w.Get()
}

// Get waits for the name and acquires it like the core, by wake-ups and by
// polling.
func (w *Waiting) Get() *Claim {
	deadline := time.Now().Add(w.e.Slack)
	for {
		c, err := w.e.Try(w.P, w.Req)
		if err == nil {
			return c
		}
		w.e.Held(err)
		w.e.True(time.Now().Before(deadline), "not served within %v", w.e.Slack)
		select {
		case <-w.Hints:
		case <-time.After(50 * time.Millisecond):
		}
	}
}
