package suite

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/proxy"
)

// Backend is a harness, as the checks use it: see providertest.Harness.
type Backend struct {
	New         func(t testing.TB) abstractions.Provider
	NewPeer     func(t testing.TB, p abstractions.Provider) abstractions.Provider
	Unreachable func(t testing.TB) abstractions.Provider
	// Behind opens a client behind a proxy in front of the server of p. It is nil if p does not speak HTTP.
	Behind                      func(t testing.TB, p abstractions.Provider) (abstractions.Provider, *proxy.Proxy)
	Forget, Ahead, Lose, Remove func(t testing.TB, p abstractions.Provider, name string)
	Records                     func(p abstractions.Provider) *cas.Records
	Advance                     func(p abstractions.Provider, d time.Duration)
	Remembers                   int
	TTL, Slack                  time.Duration
	Virtual, Watched            bool
}

// ttls returns two TTLs: short for leases that a check watches run out, and long
// for leases that must not run out during a check.
func (b Backend) ttls(c abstractions.Capabilities) (short, long time.Duration) {
	short, long = b.TTL, time.Minute
	if short == 0 {
		short = 300 * time.Millisecond
		if b.Virtual {
			short = 10 * time.Second
		}
	}
	return Grantable(short+max(0, c.Granularity-1), c), Grantable(max(long, short), c)
}

// Grantable returns a TTL that the backend grants, about as long as the one given.
func Grantable(ttl time.Duration, c abstractions.Capabilities) time.Duration {
	if c.MaxTTL > 0 {
		ttl = min(ttl, c.MaxTTL)
	}
	return max(ttl, c.MinTTL).Truncate(c.Granularity)
}
