package redislease

import (
	"context"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Bootstrap lets the new servers of a Redlock vote at once; otherwise they cast no vote
// for [Options].MaxTTL, as a server that has lost its data does. It is an operator's
// word that no lease is alive on them: call it once, when the servers are new, and
// not on every start of a program, which may come just after they have lost their data.
//
// All servers have to answer. Those that have been voting are left as they are: nothing
// is done if all have been, and the call is refused if only some have.
func (p *Provider) Bootstrap(ctx context.Context) error {
	r, ok := p.topology.(*redlock)
	if !ok {
		return &abstractions.InvalidError{Field: "Options.Mode", Value: p.Capabilities().Provider, Want: "redlock: others need no bootstrap"}
	}
	return providerkit.Call(ctx, p.shell, "bootstrap", "", r.bootstrap)
}

// bootstrap lets new servers vote at once, if all of them answer and all are new.
func (r *redlock) bootstrap(ctx context.Context) error {
	all, err := r.askMembers(ctx, lookAtServer)
	if err != nil {
		return err
	}
	var used []string
	for i, a := range all {
		if !a.isNew {
			used = append(used, r.peers[i].label)
		}
	}
	switch len(used) {
	case 0:
		_, err = r.askMembers(ctx, bootstrapServer)
		return err
	case len(all):
		return nil
	}
	return &abstractions.InvalidError{Field: "Options", Value: "with " + strings.Join(used, ", ") + " in use", Want: "servers that are all new: the others may have lost leases, and vote in a while"}
}
