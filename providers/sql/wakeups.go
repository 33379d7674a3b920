package sqllease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
)

// wakeups sends hints that a name may be free with NOTIFY, in the transaction
// that frees it, and receives them with LISTEN: see listener.
type wakeups struct {
	channel string
	connect func(context.Context) (*pgx.Conn, error) // nil if the driver can't listen
	silence time.Duration                            // after which the connection is checked

	mu      sync.Mutex
	waiters map[string]map[*waiter]struct{} // by payload
	current *listener                       // nil while nobody needs one
	running sync.WaitGroup                  // listeners
	closed  bool
}

// waiter is one registration.
type waiter struct{ c chan struct{} }

func newWakeups(n naming, connect func(context.Context) (*pgx.Conn, error)) *wakeups {
	return &wakeups{
		channel: "leasing_" + digest(fmt.Sprintf("%q %q", n.schema, n.table)),
		connect: connect,
		silence: listenSilence,
		waiters: make(map[string]map[*waiter]struct{}),
	}
}

func (w *wakeups) canListen() bool { return w != nil && w.connect != nil }

// address is where a hint about a name goes: a channel of the tables, with a
// payload that is short and tells the name to nobody. No channel, no hint.
func (w *wakeups) address(name string) (channel, payload string) {
	if w == nil {
		return "", ""
	}
	return w.channel, digest(name)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Wait registers a waiter: see leasing.Waiter. It fails where the database
// can't be listened to at present; polling does then.
func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	var c <-chan struct{}
	err := p.store.call(ctx, "wait", req.Name, func(bounded context.Context) (err error) {
		if !p.wakeups.canListen() {
			return abstractions.ErrUnsupported
		}
		if err := req.Validate(p.store.capabilities); err != nil {
			return err
		}
		c, err = p.wakeups.wait(ctx, bounded, req.Name)
		return err
	})
	return abstractions.Wakeups{C: c}, err
}

// wait registers until ctx ends. It returns once the hints are listened for,
// or bounded ends.
func (w *wakeups) wait(ctx, bounded context.Context, name string) (<-chan struct{}, error) {
	_, payload := w.address(name)
	me := &waiter{c: make(chan struct{}, 1)}
	state, err := w.add(payload, me)
	if err != nil {
		return nil, err
	}
	select {
	case <-state.settled:
		err = state.err
	case <-bounded.Done():
		err = bounded.Err()
	}
	if err != nil {
		w.remove(payload, me)
		return nil, err
	}
	context.AfterFunc(ctx, func() { w.remove(payload, me) })
	return me.c, nil
}

func (w *wakeups) add(payload string, me *waiter) (*listening, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, abstractions.ErrClosed
	}
	if w.waiters[payload] == nil {
		w.waiters[payload] = make(map[*waiter]struct{})
	}
	w.waiters[payload][me] = struct{}{}
	if w.current == nil {
		w.current = newListener(w)
		w.running.Go(w.current.run)
	}
	return w.current.state, nil
}

func (w *wakeups) remove(payload string, me *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters[payload], me)
	if len(w.waiters[payload]) == 0 {
		delete(w.waiters, payload)
	}
}

// everybody as a payload means all waiters.
const everybody = ""

// wake hints those who wait for a payload.
func (w *wakeups) wake(payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if payload != everybody {
		hint(w.waiters[payload])
		return
	}
	for _, waiters := range w.waiters {
		hint(waiters)
	}
}

func hint(waiters map[*waiter]struct{}) {
	for waiter := range waiters {
		select {
		case waiter.c <- struct{}{}:
		default: // it has a hint already
		}
	}
}

// close ends the listener and waits for it.
func (w *wakeups) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	if w.current != nil {
		w.current.stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}
