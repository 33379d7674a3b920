package redislease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
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
		return open(options, options.given()), nil
	}
	clients, err := l.open(options)
	if err != nil {
		return nil, err
	}
	return open(options, clients, closers(clients)...), nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

func open(o Options, clients []redis.UniversalClient, owned ...func() error) *Provider {
	d := &driver{topology: topologyOf(o, clients), caps: capabilitiesOf(o.Mode, o.MaxTTL), owned: owned}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout}), d.topology}
}

func topologyOf(o Options, clients []redis.UniversalClient) topology {
	n := naming{prefix: o.Prefix}
	timely := o.URL != "" && o.Credentials == nil // a user's code may heed no deadline
	if o.Retention != Forever {
		n.retention = o.Retention
	}
	if o.Mode != Redlock {
		return &single{node: newNode(clients[0], timely, n, 0), naming: n}
	}
	nodes := make([]*node, len(clients))
	for i, client := range clients {
		nodes[i] = newNode(client, timely, n, o.MaxTTL)
	}
	return newRedlock(nodes, n, redlockOptions{nodeTimeout: o.NodeTimeout, maxTTL: o.MaxTTL})
}

func closers(clients []redis.UniversalClient) []func() error {
	all := make([]func() error, len(clients))
	for i, client := range clients {
		all[i] = client.Close
	}
	return all
}
