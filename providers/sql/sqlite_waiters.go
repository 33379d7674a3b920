package sqllease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// sqliteWaiters are wakeups through a pipe of this process.
type sqliteWaiters struct {
	*wakeups
	of    *sqlite
	polls atomic.Bool // since there can be no pipe
}

// pipeName is a channel: what tells the pipes beside a database file apart.
type pipeName [channelBytes]byte

// path is where the pipe is.
func (n pipeName) path(database string) string {
	return pipePrefix(database) + hex.EncodeToString(n[:])
}

func pipePrefix(database string) string { return database + "-wake-" }

// pipeSilence is after how long without a message a pipe is looked after.
const pipeSilence = 10 * time.Second

func newSqliteWaiters(s *sqlite) *sqliteWaiters {
	w := &sqliteWaiters{wakeups: &wakeups{channel: make([]byte, channelBytes)}, of: s}
	_, _ = rand.Read(w.channel) // never fails
	w.Queue = waitqueue.New("pipe", func(ctx context.Context, name, waiter string) { _ = s.dequeue(ctx, name, waiter) })
	w.Hints.Connect, w.Hints.Silence = w.connect, pipeSilence
	return w
}

// channelOf is where to wake a claim; nil unless it waits.
func (w *sqliteWaiters) channelOf(id string) []byte {
	channel := w.wakeups.channelOf(id)
	if channel != nil && w.polls.Load() {
		channel = unheard[:]
	}
	return channel
}

// connect makes this process' pipe. Where that can't be, it polls.
func (w *sqliteWaiters) connect(ctx context.Context) (providerkit.Connection, error) {
	if err := w.of.db.verifyFile(ctx); err != nil {
		return nil, err
	}
	if file := w.of.db.opened.Load(); file != nil {
		if pipe, err := makePipe(file.path, pipeName(w.channel)); err == nil {
			w.polls.Store(false)
			return &pipeListener{pipe: pipe, waiters: w}, nil
		}
	}
	w.polls.Store(true)
	return &poller{wakeups: w.wakeups, in: w.of}, nil
}

// database is the path of the file; "" if there is none.
func (w *sqliteWaiters) database() string {
	if file := w.of.db.opened.Load(); file != nil {
		return file.path
	}
	return ""
}

// reach reports whether the process behind a pipe may be alive.
func (w *sqliteWaiters) reach(on pipeName) bool {
	return on == unheard || writePipe(on.path(w.database()), "")
}

// tell wakes the first of a queue, and prepares others for when all before them hang: a reservation
// each. A release stays cheap, so it tells a few.
func (w *sqliteWaiters) tell(q lineUp) {
	last := len(q)/waiterBytes - 1
	for _, rank := range []int{0, 1, 2, 3, 5, 9, 17, 33, last} {
		if rank > last {
			continue
		}
		if hash, on := q[rank*waiterBytes:].head(); on != unheard {
			writePipe(on.path(w.database()), fmt.Sprintf("%x %d\n", hash, waitqueue.Grace.Milliseconds()*int64(rank)))
		}
	}
}

// pipeListener receives the turns of a provider's waiters.
type pipeListener struct {
	*pipe
	waiters *sqliteWaiters
}

func (l *pipeListener) Receive(ctx context.Context) (waiter string, err error) {
	for waiter == "" {
		text, err := l.receive(ctx)
		if err != nil {
			return "", err
		}
		waiter = l.waiters.message(strings.TrimSuffix(text, "\n"))
	}
	return waiter, nil
}

func (l *pipeListener) Ping(context.Context) error { return l.check() }

func (l *pipeListener) Close() { l.close() }
