package sqlsequence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/sequence/internal/watch"
	"github.com/jackc/pgx/v5"
)

// wakeups notifies other processes of closed numbers, and listens for their notifications. A
// notification may be lost; waiters then poll.
type wakeups struct {
	hub     *watch.Hub
	on      session
	channel string
	connect func(context.Context) (*pgx.Conn, error) // nil if the driver can't listen
	pooled  atomic.Bool                              // a pooler may run each transaction in a different session, so listening is impossible

	listener wakeup.Listener

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	notifying bool
	dirty     map[string]struct{} // streams to notify about
}

const (
	notifyTimeout = 5 * time.Second
	notifyPause   = 5 * time.Millisecond // closings during the pause share the next notification, which does not wait for a sync to disk
)

func newWakeups(hub *watch.Hub, on session, schema, prefix string, connect func(context.Context) (*pgx.Conn, error)) *wakeups {
	w := &wakeups{hub: hub, on: on, channel: "sequence_" + digest(fmt.Appendf(nil, "%q %q", schema, prefix))[:16], connect: connect, dirty: map[string]struct{}{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if connect != nil {
		w.listener.Connect = w.open
	}
	return w
}

func (w *wakeups) close() {
	w.mu.Lock() // from then on notify starts no goroutine
	w.stop()
	w.mu.Unlock()
	w.listener.Close()
	w.running.Wait()
}

// notify sends a notification soon. Calls during a send share the next notification.
func (w *wakeups) notify(stream string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	w.dirty[stream] = struct{}{}
	if !w.notifying {
		w.notifying = true
		w.running.Go(w.send)
	}
}

func (w *wakeups) send() {
	for {
		w.mu.Lock()
		streams := slices.Collect(maps.Keys(w.dirty))
		clear(w.dirty)
		w.notifying = len(streams) > 0 && w.ctx.Err() == nil
		again := w.notifying
		w.mu.Unlock()
		if !again {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, notifyTimeout)
		for _, stream := range streams {
			_, _ = hasRow(ctx, w.on, `SELECT 1 FROM (SELECT pg_catalog.set_config('synchronous_commit', 'off', true), pg_catalog.pg_notify(CAST($1 AS TEXT), CAST($2 AS TEXT))) AS sent`, w.channel, stream)
		}
		cancel()
		select {
		case <-time.After(notifyPause):
		case <-w.ctx.Done():
		}
	}
}

// connection is a listening connection. It wakes the waiters of a stream by itself, and reports to the listener only that it is
// alive.
type connection struct {
	*pgx.Conn
	hub *watch.Hub
}

func (w *wakeups) open(ctx context.Context) (wakeup.Connection, error) {
	if w.pooled.Load() {
		return nil, pgkit.ErrPooled
	}
	conn, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := connection{conn, w.hub}
	err = pgkit.Sticks(ctx, conn, func(ctx context.Context) (pid int, err error) {
		err = w.on.query(ctx, pgkit.ServerProcess, nil, func(scan scan) error { return scan(&pid) })
		return pid, err
	})
	if err != nil {
		w.pooled.Store(errors.Is(err, pgkit.ErrPooled))
		c.Close()
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		c.Close()
		return nil, err
	}
	w.hub.WakeAll() // numbers closed before the LISTEN caused no notification here
	return c, nil
}

func (c connection) Receive(ctx context.Context) (string, error) {
	notification, err := c.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	c.hub.Wake(notification.Payload)
	return notification.Payload, nil
}

func (c connection) Close() { pgkit.HangUp(c.Conn) }
