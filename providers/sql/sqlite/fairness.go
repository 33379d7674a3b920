package sqlitelease

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// A process pauses when its burst of writes reaches maxBurst while others wait for the file, so
// that the others can lock the file. They poll at intervals, and would otherwise find the file free
// only by luck. In a measurement, a process with 16 goroutines and one with a single goroutine
// wrote without a break: without the pause their shares were between 3:1 and 5:1, and the worst
// wait was 0.5 s; with the pause the shares were between 1.6:1 and 2:1, and the worst wait was 0.14
// s.
const (
	maxBurst         = 4 * time.Millisecond
	burstGap         = 500 * time.Microsecond // ends a burst
	contentionWindow = 100 * time.Millisecond // how long other processes count as waiting after their lock was found
)

// writeBurst is the time for which this process has been writing without a gap.
type writeBurst struct {
	start, last time.Time    // guarded by sqliteDatabase.lock
	contended   atomic.Int64 // when another process's lock was last found; Unix nanoseconds
}

// begin is called before a transaction, and pauses to give others a chance.
func (b *writeBurst) begin(ctx context.Context) {
	now := time.Now()
	if b.isTooLong(now) {
		dialect.Pause(ctx, maxPoll)
		now = time.Now()
		b.start = now
	}
	if now.Sub(b.last) > burstGap {
		b.start = now
	}
}

// end is called after a transaction.
func (b *writeBurst) end() { b.last = time.Now() }

func (b *writeBurst) isTooLong(now time.Time) bool {
	return now.Sub(b.last) <= burstGap && now.Sub(b.start) > maxBurst && now.UnixNano()-b.contended.Load() < int64(contentionWindow)
}

// Bounds of the pause between two requests for the lock of the file.
const (
	minPoll = 100 * time.Microsecond
	maxPoll = time.Millisecond
)

// busy decides after count pauses whether to poll the lock of the file once more. SQLite's
// own handler backs off to 100 ms, so that the oldest waiters poll less and less often, and newcomers overtake these waiters.
// Here every waiter polls at the same short, random intervals for as long as its context lasts.
func (b *writeBurst) busy(ctx context.Context, count int) bool {
	b.contended.Store(time.Now().UnixNano())
	return (ctx.Done() != nil || count < maxBusyPolls) && dialect.Pause(ctx, minPoll+rand.N(maxPoll-minPoll))
}

// maxBusyPolls bounds the wait to some ten seconds if there is no context, as when database/sql
// opens a connection on its own.
const maxBusyPolls = 20_000
