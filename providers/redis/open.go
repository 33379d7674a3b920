package redislease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redlock"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// Open makes a provider. It makes no request: a server that can't be reached, or refuses, shows at the first use. Options that
// can't work are reported as leasing.ErrInvalid.
//
// The user that Redis knows it by needs no more rights than [ACLRules] says.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	field, l, err := options.complete()
	if err != nil {
		return nil, err
	}
	if field != "URL" {
		return open(options, options.given(), nil), nil
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

func open(o Options, clients, owned []redis.UniversalClient) *Provider {
	d := &driver{topology: topologyOf(o, clients), caps: capabilitiesOf(o.Mode, o.MaxTTL), owned: owned}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout}), d.topology}
}

func topologyOf(o Options, clients []redis.UniversalClient) topology {
	n := script.Naming{Prefix: o.Prefix}
	timely := o.URL != "" && o.Credentials == nil // a user's code may heed no deadline
	if o.Retention != abstractions.Infinite {
		n.Retention = o.Retention
	}
	if o.Mode == Redlock {
		return redlock.New(clients, timely, redlock.Options{Naming: n, NodeTimeout: o.NodeTimeout, MaxTTL: o.MaxTTL})
	}
	return node.NewSingle(clients[0], timely, n)
}
