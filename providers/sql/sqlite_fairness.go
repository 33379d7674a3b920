package sqllease

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// fairLock is a lock whose waiters are served in the order in which they came, but
// that the urgent ones pass all others except the first. SQLite has one writer at a
// time; goroutines queue here, at no cost, rather than at the lock of the file, where
// waiting means polling.
type fairLock struct {
	taken semaphore // of one place: the lock
	first semaphore // of one place: the first in the queue of those that are not urgent
}

func newFairLock() fairLock { return fairLock{make(semaphore, 1), make(semaphore, 1)} }

func (l fairLock) lock(ctx context.Context, urgent bool) error {
	if !urgent {
		if err := l.first.enter(ctx); err != nil {
			return err
		}
		defer l.first.leave()
	}
	return l.taken.enter(ctx)
}

func (l fairLock) unlock() { l.taken.leave() }

// A process that has written for longest at a stretch, while others wait for
// the file, leaves it to them for a pause: they ask at intervals, and would find
// it free by luck only. Measured with a process of 1 goroutine beside one of 16,
// both writing all they can: shares of 3 to 5 to 1 and a worst wait of 0.5 s
// without the pause, 1.6 to 2 to 1 and 0.14 s with it.
const (
	longestBurst = 4 * time.Millisecond
	burstGap     = 500 * time.Microsecond // ends a burst
	otherSeen    = 100 * time.Millisecond // for how long a lock that was met tells of others
)

// writeBurst is how long this process has been writing without a gap.
type writeBurst struct {
	start, last time.Time    // guarded by sqliteDatabase.lock
	contended   atomic.Int64 // when another's lock stood in the way; Unix nanoseconds
}

// noteContention records that another process, or connection, has the lock.
func (b *writeBurst) noteContention() { b.contended.Store(time.Now().UnixNano()) }

// begin is called before a transaction, and pauses if others should have a chance.
func (b *writeBurst) begin(ctx context.Context) {
	now := time.Now()
	if b.tooLong(now) {
		wait(ctx, pollMost)
		now = time.Now()
		b.start = now
	}
	if now.Sub(b.last) > burstGap {
		b.start = now
	}
}

// end is called after a transaction.
func (b *writeBurst) end() { b.last = time.Now() }

func (b *writeBurst) tooLong(now time.Time) bool {
	return now.Sub(b.last) <= burstGap && now.Sub(b.start) > longestBurst && now.UnixNano()-b.contended.Load() < int64(otherSeen)
}

// Bounds of the pause between two requests for the lock of the file.
const (
	pollLeast = 100 * time.Microsecond
	pollMost  = time.Millisecond
)

// busyHandler waits for the lock of the file, which can only be polled. SQLite's
// own handler backs off to 100 ms, so that whoever waits long waits ever longer
// while newcomers pass: here everybody asks at the same short, random intervals
// for as long as the context lasts.
type busyHandler struct {
	since time.Time
	burst *writeBurst
}

// longestBusy bounds the wait where there is no context to: when database/sql
// opens a connection on its own account.
const longestBusy = 10 * time.Second

// wait reports whether to ask again.
func (h *busyHandler) wait(ctx context.Context, count int) bool {
	h.burst.noteContention()
	if count == 0 {
		h.since = time.Now()
	}
	if ctx.Done() == nil && time.Since(h.since) > longestBusy {
		return false
	}
	return wait(ctx, pollLeast+rand.N(pollMost-pollLeast))
}

// wait reports false if ctx ended before the time had passed.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
