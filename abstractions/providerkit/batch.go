package providerkit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

var errNoAnswer = fmt.Errorf("%w: the batch has no answer for this claim", abstractions.ErrUnavailable)

// RenewBatch renews many claims: see abstractions.BatchRenewer. An invalid item gets an
// error of its own; the others are sent.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if p.config.Detach { // the call may outlive its caller
		reqs = slices.Clone(reqs)
		for i := range reqs {
			reqs[i].Metadata = maps.Clone(reqs[i].Metadata)
		}
	}
	valid := reqs
	invalid := func(r abstractions.RenewRequest) bool { return r.Validate(p.caps) != nil }
	if slices.ContainsFunc(reqs, invalid) {
		valid = slices.DeleteFunc(slices.Clone(reqs), invalid)
	}
	renewed, err := callAbility(ctx, p, "renew", "", nil, valid, func(d abstractions.BatchRenewer, own context.Context, valid []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
		if len(valid) == 0 {
			return nil, nil
		}
		renewed, err := d.RenewBatch(own, valid)
		if len(renewed) != len(valid) {
			renewed = append(renewed, make([]abstractions.RenewResult, len(valid))...)[:len(valid)]
		}
		for i := range renewed {
			r := &renewed[i]
			if r.Err == nil && r.Grant.ID != valid[i].ID {
				r.Err = cmp.Or(err, errNoAnswer)
			}
			r.Err = p.wrap("renew", valid[i].Name, valid[i].ID, p.explain(ctx, own, r.Err))
		}
		return renewed, nil
	})
	if len(valid) == len(reqs) || err != nil {
		return renewed, err
	}
	results := make([]abstractions.RenewResult, len(reqs))
	for i, r := range reqs {
		if err := r.Validate(p.caps); err != nil {
			results[i].Err = p.wrap("renew", r.Name, r.ID, err)
		} else {
			results[i], renewed = renewed[0], renewed[1:]
		}
	}
	return results, nil
}
