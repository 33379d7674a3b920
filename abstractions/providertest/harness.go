package providertest

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Harness says how to test a provider. Only New is required; the checks that
// need a field that is missing are left out, and the log says so.
type Harness struct {
	// New opens a client of a backend that works. It is called at least once
	// for each check, from several goroutines at a time; the backend may be
	// shared, since the suite makes up its names (and leaves some of them
	// behind, held for a minute more). The suite closes the provider; whatever
	// else there is to close is for t.Cleanup, which runs when the check ends.
	New func(t testing.TB) abstractions.Provider

	// Peer opens a second client of the backend behind p, like another
	// process's. The suite closes it. Default: p itself.
	Peer func(t testing.TB, p abstractions.Provider) abstractions.Provider

	// Forget makes the backend forget a name that is free, as it does once the
	// name has been idle for its retention.
	Forget func(t testing.TB, p abstractions.Provider, name string)

	// Ahead raises the token of a free name by an hour, as if the backend's clock had
	// been ahead when it was held, and was set right since.
	Ahead func(t testing.TB, p abstractions.Provider, name string)

	// Lose has the backend lose what it may lose of a name that is held, by what the
	// provider's documentation says: what one of several servers knows.
	Lose func(t testing.TB, p abstractions.Provider, name string)

	// Remove ends a lease behind its holder's back, as somebody may by hand at the backend: the
	// record is deleted, or whatever else the provider's documentation says ends it at once.
	Remove func(t testing.TB, p abstractions.Provider, name string)

	// Remembers is how many IDs that ended a busy name refuses, of the last minute, where that is
	// more than the eight of the contract: 64 of the kit's records.
	Remembers int

	// Unreachable opens a client whose backend does not answer: best one that
	// takes requests and stays silent, else one that is not there.
	Unreachable func(t testing.TB) abstractions.Provider

	// TTL is how long leases last that are watched running out. Default: the
	// provider's minimum, but at least 300 ms (10 s in virtual time).
	TTL time.Duration

	// Virtual runs each check in a testing/synctest bubble. New is called
	// inside it, and nothing may involve a socket or a file. Without it the checks
	// that need exact times are left out.
	Virtual bool

	// Advance moves the clock of p's backend forward, or back if d is negative and
	// the backend's clock can be. New must give each provider a backend of its own then.
	Advance func(p abstractions.Provider, d time.Duration)

	// Watched says that a client finds a lease over only once it has seen it unchanged for
	// its TTL: both clients look at a lease before the suite lets it run out.
	Watched bool

	// KnowsTheGone says that the backend knows which clients are there: who waits by one that is
	// gone is not listed. Peer opens clients of their own then.
	KnowsTheGone bool

	// Slack is how long what should happen soon may take on a slow machine,
	// such as the end of a call whose context has ended. Default 10 s.
	Slack time.Duration

	// Except names checks that this provider can't pass, each with the reason.
	// They are reported as skipped.
	Except map[string]string
}

func (h Harness) withDefaults() Harness {
	if h.Peer == nil {
		h.Peer = func(_ testing.TB, p abstractions.Provider) abstractions.Provider { return p }
	}
	if h.Slack == 0 {
		h.Slack = 10 * time.Second
	}
	return h
}

// ttls returns the TTL of leases that are watched running out, and of leases
// that must not run out while a check uses them.
func (h Harness) ttls(c abstractions.Capabilities) (short, long time.Duration) {
	short, long = h.TTL, time.Minute
	if short == 0 {
		short = 300 * time.Millisecond
		if h.Virtual {
			short = 10 * time.Second
		}
	}
	return grantable(short+max(0, c.Granularity-1), c), grantable(max(long, short), c)
}

// grantable returns a TTL that the backend grants, about as long as the one given.
func grantable(ttl time.Duration, c abstractions.Capabilities) time.Duration {
	if c.MaxTTL > 0 {
		ttl = min(ttl, c.MaxTTL)
	}
	return max(ttl, c.MinTTL).Truncate(c.Granularity)
}
