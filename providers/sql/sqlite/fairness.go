package sqlitelease

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

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

// begin is called before a transaction, and pauses if others should have a chance.
func (b *writeBurst) begin(ctx context.Context) {
	now := time.Now()
	if b.tooLong(now) {
		dialect.Pause(ctx, pollMost)
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

// The lock of the file, which can only be polled. SQLite's
// own handler backs off to 100 ms, so that whoever waits long waits ever longer
// while newcomers pass: here everybody asks at the same short, random intervals
// for as long as the context lasts. busy is asked after count pauses whether to ask again.
func (b *writeBurst) busy(ctx context.Context, count int) bool {
	b.contended.Store(time.Now().UnixNano())
	return (ctx.Done() != nil || count < mostBusy) && dialect.Pause(ctx, pollLeast+rand.N(pollMost-pollLeast))
}

// mostBusy bounds the wait, to some ten seconds, where there is no context to: when database/sql
// opens a connection on its own account.
const mostBusy = 20_000
