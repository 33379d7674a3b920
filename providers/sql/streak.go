package sqllease

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A process that has written for longest at a stretch, while others wait for
// the file, leaves it to them for a pause: they ask at intervals, and would find
// it free by luck only. Measured with a process of 1 goroutine beside one of 16,
// both writing all they can: shares of 3 to 5 to 1 and a worst wait of 0.5 s
// without the pause, 1.6 to 2 to 1 and 0.14 s with it.
const (
	longest   = 4 * time.Millisecond
	streakGap = 500 * time.Microsecond // ends a stretch
	otherSeen = 100 * time.Millisecond // for how long a lock that was met tells of others
)

// streak is how long this process has been writing without a gap.
type streak struct {
	start, last time.Time    // guarded by sqliteDatabase.turn
	met         atomic.Int64 // when another's lock stood in the way; Unix nanoseconds
}

// meet notes that another process, or connection, has the lock.
func (s *streak) meet() { s.met.Store(time.Now().UnixNano()) }

// begin is called before a transaction, and pauses if others should have a turn.
func (s *streak) begin(ctx context.Context) {
	now := time.Now()
	if s.tooLong(now) {
		wait(ctx, pollMost)
		now = time.Now()
		s.start = now
	}
	if now.Sub(s.last) > streakGap {
		s.start = now
	}
}

// end is called after a transaction.
func (s *streak) end() { s.last = time.Now() }

func (s *streak) tooLong(now time.Time) bool {
	return now.Sub(s.last) <= streakGap && now.Sub(s.start) > longest && now.UnixNano()-s.met.Load() < int64(otherSeen)
}

// Bounds of the pause between two requests for the lock of the file.
const (
	pollLeast = 100 * time.Microsecond
	pollMost  = time.Millisecond
)

// patience waits for the lock of the file, which can only be polled. SQLite's
// own handler backs off to 100 ms, so that whoever waits long waits ever longer
// while newcomers pass: here everybody asks at the same short, random intervals
// for as long as the context lasts.
type patience struct {
	since  time.Time
	streak *streak
}

// mostPatience bounds the wait where there is no context to: when database/sql
// opens a connection on its own account.
const mostPatience = 10 * time.Second

// wait is an SQLite busy handler: it reports whether to ask again.
func (p *patience) wait(ctx context.Context, count int) bool {
	p.streak.meet()
	if count == 0 {
		p.since = time.Now()
	}
	if ctx.Done() == nil && time.Since(p.since) > mostPatience {
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
