package redislease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redlock"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// Open makes a provider. It sends no request, so an unreachable server or a refused log-in is reported only at the first
// use. Invalid options are reported as leasing.ErrInvalid.
//
// The provider's Redis user needs only the permissions in [ACLRules].
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := options.complete()
	if err != nil {
		return nil, err
	}
	if options.URL == "" {
		return open(options, options.clients(), nil), nil
	}
	clients, err := l.open(options)
	if err != nil {
		return nil, err
	}
	return open(options, clients, clients), nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with redis://, rediss:// or unix://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"redis", "rediss", "unix"}

func open(o Options, clients, owned []redis.UniversalClient) *Provider {
	n := script.Naming{Prefix: o.Prefix}
	if o.Retention != abstractions.Infinite {
		n.Retention = o.Retention
	}
	timely := o.HeedsContext || o.URL != "" && o.Credentials == nil // otherwise the application's code may run, and may ignore deadlines
	d, config := &driver{caps: capabilitiesOf(o.Mode, o.MaxTTL), owned: owned}, providerkit.Config{Timeout: o.Timeout}
	if o.Mode == Redlock {
		d.topology = redlock.New(clients, timely, redlock.Options{Naming: n, NodeTimeout: o.NodeTimeout, MaxTTL: o.MaxTTL})
		return &Provider{providerkit.New(d, config), d.topology}
	}
	single := node.NewSingle(clients[0], timely, n)
	d.topology = single
	return &Provider{providerkit.New(waitListDriver{d, single}, config), single}
}

const (
	// minTTL covers a few network round trips and a pause of Go's garbage collector,
	// with time left to renew. Redis itself would allow a millisecond.
	minTTL = 100 * time.Millisecond
	// redlockMinTTL leaves time for the two rounds of an acquire, each of which may
	// wait for a slow server.
	redlockMinTTL = 200 * time.Millisecond
)

// capabilitiesOf returns the capabilities of a mode; longest is Options.MaxTTL.
func capabilitiesOf(mode Mode, longest time.Duration) abstractions.Capabilities {
	c := abstractions.Capabilities{
		Provider:       "redis",
		MinTTL:         minTTL,
		MaxTTL:         script.MaxTTL,
		Granularity:    time.Millisecond, // of PEXPIRE
		Infinite:       true,
		Clock:          "the Redis server's clock",
		Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
		RemainingKnown: true,
		Queues:         true,
		HeedsContext:   true, // client calls that may ignore contexts run in goroutines of the provider
	}
	switch mode {
	case Cluster:
		c.Provider = "redis-cluster"
		c.Clock = "the clock of the Redis server that has the name"
	case Redlock:
		c.Provider = "redlock"
		c.Clock = "the clocks of the Redis servers"
		c.MinTTL, c.MaxTTL = redlockMinTTL, longest.Truncate(c.Granularity)
		c.Infinite = false // a server that has lost its data votes again after MaxTTL
	}
	return c
}
