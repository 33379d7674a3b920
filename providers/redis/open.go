package redislease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// Open makes a provider. It makes no request: a server that can't be reached, or refuses, shows at the first use. Options that
// can't work are reported as leasing.ErrInvalid.
//
// The user that Redis knows it by needs no more rights than [Rights] says.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	field, err := options.source()
	if err != nil {
		return nil, err
	}
	var l location
	if field == "URL" {
		if options, l, err = options.withURL(); err != nil {
			return nil, err
		}
	}
	if options.Credentials != nil && (field != "URL" || l.user != "" || l.password != "") {
		return nil, &abstractions.InvalidError{Field: "Options.Credentials", Value: notShown, Want: "nothing with Client or Clients, or with a user or password in the URL"}
	}
	if options.Mode, err = options.mode(field, l); err != nil {
		return nil, err
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	if field != "URL" {
		return open(options, options.given()), nil
	}
	clients, err := l.open(options)
	if err != nil {
		return nil, err
	}
	p := open(options, clients)
	p.owned = closers(clients)
	return p, nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

func open(o Options, clients []redis.UniversalClient) *Provider {
	p := &Provider{caps: capabilitiesOf(o.Mode, o.MaxTTL), timeout: o.Timeout}
	n := naming{prefix: o.Prefix}
	if o.Retention != Forever {
		n.retention = o.Retention
	}
	if o.Mode != Redlock {
		p.topology = &single{node: newNode(clients[0], n, 0), naming: n}
		return p
	}
	nodes := make([]*node, len(clients))
	for i, client := range clients {
		nodes[i] = newNode(client, n, o.MaxTTL)
	}
	p.topology = newRedlock(nodes, n, redlockOptions{nodeTimeout: o.NodeTimeout, maxTTL: o.MaxTTL})
	return p
}

func closers(clients []redis.UniversalClient) []func() error {
	all := make([]func() error, len(clients))
	for i, client := range clients {
		all[i] = client.Close
	}
	return all
}
