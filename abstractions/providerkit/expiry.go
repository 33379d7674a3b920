package providerkit

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// maxWatched bounds how many names are watched at a time. One that is left out
	// is freed by the service's time alone, a few seconds later, or where there is
	// none by a later watch.
	maxWatched = 1 << 14
	// A lease has been watched for long enough after its TTL, a hundredth of it for
	// clocks that run at different rates, and a tenth of a second.
	watchRate  = 100
	watchFloor = 100 * time.Millisecond
)

// Expiry decides when a lease is over in a store that expires nothing itself. It
// has two ways, and the first that says so decides. No client's wall clock has a
// part in either.
//
// By the service's times: of the holder's last write, and of the reply to a read.
// They are cut down to the service's resolution, and may come from two clocks, which
// disagree by Skew at most. Let a holder write at w and somebody read at r. Then
// written > w - resolution - skew and now <= r, so now - written >= TTL + resolution +
// skew says that r - w >= TTL: the holder, who counts from before its write was sent,
// has stopped to trust its lease. It is that late, and as late again if the clocks
// disagree the other way: see Lateness.
//
// By watching: a holder's write that this process has seen a TTL ago, on its
// monotonic clock, and that is still the latest when it is replaced under its
// version, is of a lease that has run out. The replacement shows that it is the
// latest, so a stale read does no harm. That clock stands still while the machine is
// suspended: then the watch only lasts longer.
type Expiry struct {
	// Resolution is that of the service's times, and Skew what its clocks may
	// disagree by.
	Resolution, Skew time.Duration

	mu   sync.Mutex
	seen map[string]observation
}

type observation struct {
	write string
	since time.Time
}

// sighting is what a read shows of a holder.
type sighting struct {
	Name string
	// Write tells the holder's writes apart: an ETag, or an ID that each of them makes
	// up and no other write changes.
	Write string
	TTL   time.Duration // from its last write
	// Ends is when the TTL is over, by the clock of the service's writes: the time of
	// the last write plus TTL. Zero if the service tells no time.
	Ends time.Time
	Now  time.Time // of the reply; zero if the service tells no time
}

// Grace is for how long after its TTL a lease is still taken for held, by the
// service's times.
func (e *Expiry) Grace() time.Duration { return e.Resolution + e.Skew }

// Lateness bounds how late a lease that is over is free.
func (e *Expiry) Lateness() abstractions.Lateness {
	return abstractions.Lateness{Fixed: 2 * e.Grace()}
}

// left returns Record.Left and Record.Slack of a lease that was just read.
func (e *Expiry) left(l sighting) (left, slack time.Duration) {
	if l.TTL == abstractions.Infinite {
		return abstractions.Infinite, 0
	}
	left = l.TTL + l.TTL/watchRate + watchFloor - e.watched(l, time.Now())
	if l.Ends.IsZero() || l.Now.IsZero() {
		return left, abstractions.Infinite
	}
	return min(left, l.Ends.Add(e.Grace()).Sub(l.Now)), 2 * e.Grace()
}

// watched is for how long this process has known the holder's last write.
func (e *Expiry) watched(l sighting, now time.Time) time.Duration {
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
		for other := range e.seen { // any
			delete(e.seen, other)
			break
		}
	}
	e.seen[l.Name] = observation{write: l.Write, since: now}
	return 0
}

// watches reports whether this process has seen a holder of the name.
func (e *Expiry) watches(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.seen[name]
	return known
}

// forget ends the watch over a name whose holder left.
func (e *Expiry) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.seen, name)
}
