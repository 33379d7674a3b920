package sqllease

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
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// Who waits for a name stands in its row, in the order of arrival: the hash of the claim, and the channel on which its
// process listens, 8 bytes each. So leaving, reserving and waking touch no other row and no index. A thousand wait at
// most; others poll. Who they are stands in the row too on SQLite (lineUp), and on PostgreSQL in a table of its own, which
// nobody needs to be served.
const (
	waiterBytes  = 2 * hashBytes
	mostWaiters  = 1024
	channelBytes = hashBytes
)

// unheard is the channel of those who poll.
var unheard [channelBytes]byte

// wakeups are the claims of this provider that wait, by the names they wait for. A statement that frees a name
// notifies the process of the head.
type wakeups struct {
	*waitqueue.Queue[string]
	channel []byte
	polls   atomic.Bool // since nothing can wake this process
}

// turns is how wakeups reach the database where they can't listen.
type turns interface {
	// turns finds those of the waiters whose turn it is.
	turns(ctx context.Context, all []turn) (ids []string, err error)
	// dequeue takes a waiter out of a name's queue.
	dequeue(ctx context.Context, name, id string) error
}

// turn is one that waits for a name.
type turn struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// errPolls is for where nothing can wake a process.
var errPolls = errors.New("waiters have to poll")

// newWakeups takes a function that connects to listen, and fails with errPolls where it never can.
func newWakeups(in turns, listen func(context.Context, *wakeups) (providerkit.Connection, error)) *wakeups {
	w := &wakeups{channel: make([]byte, channelBytes)}
	_, _ = rand.Read(w.channel) // never fails
	w.Queue = waitqueue.New(hex.EncodeToString(w.channel), func(ctx context.Context, name, id string) {
		_ = in.dequeue(ctx, name, id)
	})
	w.Hints.Connect = func(ctx context.Context) (providerkit.Connection, error) {
		conn, err := listen(ctx, w)
		w.polls.Store(errors.Is(err, errPolls))
		if w.polls.Load() {
			return &poller{wakeups: w, in: in}, nil
		}
		return conn, err
	}
	return w
}

// waiterOf is what a claim is called here.
func waiterOf(id string) string { return hex.EncodeToString(hashOf(id)) }

// channelOf is where to wake a claim; nil unless it waits.
func (w *wakeups) channelOf(id string) []byte {
	if !w.Waits() {
		return nil
	}
	_, joins := w.Join(waiterOf(id))
	switch {
	case !joins:
		return nil
	case w.polls.Load():
		return unheard[:]
	}
	return w.channel
}

func (w *wakeups) wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return w.Register(ctx, req.Name, waiterOf(req.ID))
}

// message takes "waiter delay": ask after so many milliseconds. It returns the waiter if that is now, and "" otherwise, which wakes nobody.
func (w *wakeups) message(text string) (now string) {
	id, delay, _ := strings.Cut(text, " ")
	after, err := strconv.Atoi(delay)
	if err != nil || !w.Due(id, time.Duration(after)*time.Millisecond, nil) {
		return ""
	}
	return id
}

// Bounds of the pause between two questions of a poller. The longest is well within a reservation.
const (
	turnsLeast = 5 * time.Millisecond
	turnsMost  = 80 * time.Millisecond
)

// poller stands in for a listener where there is none: it asks, for all the waiters of a provider at once, whose turn it is.
type poller struct {
	*wakeups
	in    turns
	found []string // and not yet told
	pause time.Duration
}

func (p *poller) Receive(ctx context.Context) (id string, err error) {
	for len(p.found) == 0 {
		p.pause = min(max(turnsLeast, p.pause*3/2), turnsMost)
		if !wait(ctx, p.pause) {
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
	all := make([]turn, len(ids))
	for i := range ids {
		all[i] = turn{names[i], ids[i]}
	}
	if len(all) > 0 {
		p.found, err = p.in.turns(ctx, all)
	}
	return err
}

func (*poller) Close() {}
