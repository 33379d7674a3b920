package suite

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Registration is a waiter that the suite has registered.
type Registration struct {
	e       *Env
	P       abstractions.Provider
	Req     abstractions.AcquireRequest
	Wakeups <-chan struct{}
	Leave   context.CancelFunc
}

// Wait registers a new claim as a waiter for a held name, and sends an acquire,
// which is refused.
func (e *Env) Wait(p abstractions.Provider, name string) *Registration {
	return e.WaitFor(p, e.Request(name))
}

// WaitFor is Wait for a given claim.
func (e *Env) WaitFor(p abstractions.Provider, req abstractions.AcquireRequest) *Registration {
	w := e.Register(p, req)
	_, err := e.Try(p, w.Req)
	e.Held(err)
	return w
}

// Register registers a claim as a waiter.
func (e *Env) Register(p abstractions.Provider, req abstractions.AcquireRequest) *Registration {
	waiter := Ability[abstractions.Waiter](e, p)
	ctx, cancel := context.WithCancel(e.T.Context())
	e.T.Cleanup(cancel)
	w := &Registration{e: e, P: p, Req: req, Leave: cancel}
	wakeups, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: req.Name, ID: req.ID, Owner: req.Owner})
	e.NoError(err)
	e.NotNil(wakeups.C)
	e.Equal(1, cap(wakeups.C), "Wakeups.C has a buffer of one")
	w.Wakeups = wakeups.C
	return w
}

// IsWoken waits for a wake-up.
func (w *Registration) IsWoken() {
	select {
	case _, open := <-w.Wakeups:
		w.e.True(open, "closed while its context lives")
	case <-time.After(w.e.Slack):
		w.e.Fail("no wake-up within " + w.e.Slack.String())
	}
}

// TakeTurn acquires the name, and ends the registration.
func (w *Registration) TakeTurn() *Claim {
	defer w.Leave()
	return w.Acquire()
}

// Acquire waits for the name and acquires it as package leasing does, by wake-ups and by
// polling.
func (w *Registration) Acquire() *Claim {
	deadline := time.Now().Add(w.e.Slack)
	for {
		c, err := w.e.Try(w.P, w.Req)
		if err == nil {
			return c
		}
		w.e.Held(err)
		w.e.True(time.Now().Before(deadline), "not served within %v", w.e.Slack)
		select {
		case <-w.Wakeups:
		case <-time.After(50 * time.Millisecond):
		}
	}
}
