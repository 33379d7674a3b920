package redislease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/redlock"
)

// Bootstrap lets the new servers of a Redlock vote at once; otherwise they cast no vote
// for [Options].MaxTTL, as a server that has lost its data does. It is an operator's
// word that no lease is alive on them: call it once, when the servers are new, and
// not on every start of a program, which may come just after they have lost their data.
//
// All servers have to answer. Those that have been voting are left as they are: nothing
// is done if all have been, and the call is refused if only some have.
func (p *Provider) Bootstrap(ctx context.Context) error {
	r, ok := p.topology.(*redlock.Redlock)
	if !ok {
		return &abstractions.InvalidError{Field: "Options.Mode", Value: p.Capabilities().Provider, Want: "redlock: others need no bootstrap"}
	}
	return providerkit.Call(ctx, p.shell, "bootstrap", "", r.Bootstrap)
}
