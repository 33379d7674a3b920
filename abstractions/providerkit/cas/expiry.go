package cas

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// maxWatched bounds the number of names that are watched at a time. A name that is not watched is freed a few seconds later,
	// by the service's times, or, if the service reports no times, by a later watch.
	maxWatched = 1 << 14
	// A watch lasts for the TTL, plus a hundredth of the TTL because clocks run at different rates, plus a tenth of a second.
	watchRate  = 100
	watchFloor = 100 * time.Millisecond
)

// Expiry decides when a lease is over in a store that does not expire leases itself.
// There are two ways, and the first to find the lease over decides. Neither way
// uses a client's wall clock.
//
// By the service's times: written, the time of the holder's last write, and now, the
// time of the reply to a read. The times are truncated to the service's resolution,
// and may come from two clocks, which disagree by Skew at most. Let a holder write
// at w and any client read at r. Then written > w - resolution - skew and now <= r,
// so now - written >= TTL + resolution + skew implies r - w >= TTL: the holder
// counts from before its write was sent, so it has stopped trusting its lease. The
// decision is late by resolution + skew, and by as much again if the clocks disagree
// the other way: see Lateness.
//
// By watching: if this process saw a holder's write a TTL ago, on its monotonic
// clock, and that write is still the latest when it is replaced under its version,
// the lease has run out. The replacement shows that the write is the latest, so a
// stale read does no harm. The monotonic clock stands still while the machine is
// suspended, which only makes the watch last longer.
type Expiry struct {
	// Resolution is the resolution of the service's times, and Skew the largest
	// difference between its clocks.
	Resolution, Skew time.Duration

	mu   sync.Mutex
	seen map[string]observation
}

type observation struct {
	write string
	since time.Time
}

// holderState is the state of a holder in one read.
type holderState struct {
	Name string
	// Write distinguishes the holder's writes: an ETag, or a random ID that each of
	// them sets and no other write changes.
	Write string
	TTL   time.Duration // from its last write
	// Ends is the end of the TTL by the clock of the service's writes: the time of the
	// last write plus TTL. Zero if the service reports no time.
	Ends time.Time
	Now  time.Time // of the reply; zero if the service reports no time
}

// Grace returns the time for which a lease still counts as held after its TTL, by
// the service's times.
func (e *Expiry) Grace() time.Duration { return e.Resolution + e.Skew }

// Lateness bounds the time from the end of a lease until the name is free.
func (e *Expiry) Lateness() abstractions.Lateness {
	return abstractions.Lateness{Fixed: 2 * e.Grace()}
}

// left returns Left and Slack for the Record of a lease that was just read.
func (e *Expiry) left(l holderState) (left, slack time.Duration) {
	if l.TTL == abstractions.Infinite {
		return abstractions.Infinite, 0
	}
	left = l.TTL + l.TTL/watchRate + watchFloor - e.watchedFor(l, time.Now())
	if l.Ends.IsZero() || l.Now.IsZero() {
		return left, abstractions.Infinite
	}
	return min(left, l.Ends.Add(e.Grace()).Sub(l.Now)), 2 * e.Grace()
}

// watchedFor returns the time since this process first saw the holder's last write.
func (e *Expiry) watchedFor(l holderState, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.seen[l.Name]
	if known && before.write == l.Write {
		return now.Sub(before.since)
	}
	if e.seen == nil {
		e.seen = make(map[string]observation)
	}
	if !known && len(e.seen) >= maxWatched {
		for other := range e.seen { // any other name
			delete(e.seen, other)
			break
		}
	}
	e.seen[l.Name] = observation{write: l.Write, since: now}
	return 0
}

// isWatched reports whether this process has seen a holder of the name.
func (e *Expiry) isWatched(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.seen[name]
	return known
}

// forget ends the watch over a name whose holder has left.
func (e *Expiry) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.seen, name)
}
