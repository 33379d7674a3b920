package providerkit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

var errNoAnswer = fmt.Errorf("%w: the batch has no answer for this claim", abstractions.ErrUnavailable)

// RenewBatch renews many claims: see abstractions.BatchRenewer. An item that can't
// work gets an error of its own; the others are sent.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results, valid := p.validated(reqs)
	renewed, err := able(ctx, p, "renew", "", nil, func(own context.Context, d abstractions.BatchRenewer) ([]abstractions.RenewResult, error) {
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
			r.Err = p.wrap("renew", valid[i].Name, p.explain(ctx, own, r.Err))
		}
		return renewed, nil
	})
	if results == nil || err != nil {
		return renewed, err
	}
	for i := range results {
		if results[i].Err == nil {
			results[i], renewed = renewed[0], renewed[1:]
		}
	}
	return results, nil
}

// validated returns the requests that can work. results has the others' errors, and
// is nil if there are none.
func (p *Provider) validated(reqs []abstractions.RenewRequest) (results []abstractions.RenewResult, valid []abstractions.RenewRequest) {
	for i := range reqs {
		err := reqs[i].Validate(p.caps)
		if err != nil && results == nil {
			results = make([]abstractions.RenewResult, len(reqs))
			valid = append(valid, reqs[:i]...)
		}
		switch {
		case err != nil:
			results[i].Err = p.wrap("renew", reqs[i].Name, err)
		case results != nil:
			valid = append(valid, reqs[i])
		}
	}
	if results == nil {
		return nil, reqs
	}
	return results, valid
}
