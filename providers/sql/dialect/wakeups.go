package dialect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
)

// The row of a name has its waiters in the order of arrival: the hash of the claim, and the channel on which its process listens, 8
// bytes each. So leaving, reserving and waking touch no other row and no index. At most 1024 claims wait; others poll. The waiters'
// IDs and owners are in the row too (WaitList). On PostgreSQL they are in a table of their own, which is only for listing the
// waiters.
const (
	WaiterBytes  = 2 * HashBytes
	MostWaiters  = 1024
	channelBytes = HashBytes
)

// pollChannel is the channel of waiters that poll.
var pollChannel [channelBytes]byte

// Polled is the stored channel of waiters that poll.
var Polled = hex.EncodeToString(pollChannel[:])

// Wakeups has the waiting claims of this provider, by name. A statement that frees a name
// notifies the process of the head waiter.
type Wakeups struct {
	*waitqueue.Queue[string]
	ChannelBytes []byte
	Polls        atomic.Bool // true if nothing can wake this process
}

// Turns are the requests of Wakeups to the database.
type Turns interface {
	// Turns returns the waiters whose turn has come. It is for polling.
	Turns(ctx context.Context, all []Turn) (ids []string, err error)
	// Dequeue removes a waiter from a name's queue.
	Dequeue(ctx context.Context, name, id string) error
}

// Turn is a waiter and the name that it waits for.
type Turn struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// ErrPolls is the error of a process that nothing can wake.
var ErrPolls = errors.New("waiters have to poll")

// NewWakeups returns the wake-ups of a provider. listen opens a connection that receives wake-ups, and fails with
// [ErrPolls] where no process can be woken.
func NewWakeups(in Turns, listen func(context.Context, *Wakeups) (wakeup.Connection, error)) *Wakeups {
	w := &Wakeups{ChannelBytes: make([]byte, channelBytes)}
	_, _ = rand.Read(w.ChannelBytes) // never fails
	w.Queue = waitqueue.New(hex.EncodeToString(w.ChannelBytes), func(ctx context.Context, name, id string) {
		_ = in.Dequeue(ctx, name, id)
	})
	w.Wakeups.Connect = func(ctx context.Context) (wakeup.Connection, error) {
		conn, err := listen(ctx, w)
		w.Polls.Store(errors.Is(err, ErrPolls))
		if w.Polls.Load() {
			return &poller{Wakeups: w, in: in}, nil
		}
		return conn, err
	}
	return w
}

// WaiterOf returns the name of a claim among waiters: its hash, in hexadecimal digits.
func WaiterOf(id string) string { return hex.EncodeToString(HashOf(id)) }

// ChannelOf returns the channel on which to wake a claim. It is nil unless the claim waits.
func (w *Wakeups) ChannelOf(id string) []byte {
	if !w.Waits() {
		return nil
	}
	_, joins := w.Join(WaiterOf(id))
	switch {
	case !joins:
		return nil
	case w.Polls.Load():
		return pollChannel[:]
	}
	return w.ChannelBytes
}

func (w *Wakeups) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return w.Register(ctx, req.Name, WaiterOf(req.ID))
}

// Message parses the text "waiter delay": the waiter should retry after that many milliseconds. It returns the waiter if that time
// has come, and otherwise "", which wakes no waiter.
func (w *Wakeups) Message(text string) (now string) {
	id, delay, _ := strings.Cut(text, " ")
	after, err := strconv.Atoi(delay)
	if err != nil || !w.Due(id, time.Duration(after)*time.Millisecond, nil) {
		return ""
	}
	return id
}

// Bounds of the pause between two requests of a poller. The longest is well within a reservation.
const (
	minTurnPause = 5 * time.Millisecond
	maxTurnPause = 80 * time.Millisecond
)

// poller replaces a listener. One query returns the turns of all waiters of a provider.
type poller struct {
	*Wakeups
	in    Turns
	found []string // found, and not yet woken
	pause time.Duration
}

func (p *poller) Receive(ctx context.Context) (id string, err error) {
	for len(p.found) == 0 {
		p.pause = min(max(minTurnPause, p.pause*3/2), maxTurnPause)
		if !Pause(ctx, p.pause) {
			return "", ctx.Err()
		}
		if err := p.Ping(ctx); err != nil {
			return "", err
		}
	}
	id, p.found, p.pause = p.found[0], p.found[1:], 0
	return id, nil
}

func (p *poller) Ping(ctx context.Context) (err error) {
	ids, names := p.Waiting()
	all := make([]Turn, len(ids))
	for i := range ids {
		all[i] = Turn{names[i], ids[i]}
	}
	if len(all) > 0 {
		p.found, err = p.in.Turns(ctx, all)
	}
	return err
}

func (*poller) Close() {}

// Pause waits for the given time. It reports false if ctx ended before the time had
// passed.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
