package sqllease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// RenewBatch renews many claims in one statement. On PostgreSQL a row that another
// transaction has locked is left out, so that it doesn't hold the others up; its
// outcome is reported as unknown.
func (d *driver) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	results := make([]abstractions.RenewResult, len(reqs))
	for n, round := range rounds(reqs) {
		batch := make([]abstractions.RenewRequest, len(round))
		for i, at := range round {
			batch[i] = reqs[at]
		}
		renewals, err := d.backend.renew(ctx, batch, false)
		if err != nil && n > 0 {
			err = providerkit.Partial(err)
		}
		if err != nil {
			return nil, err
		}
		for i, at := range round {
			results[at].Grant, results[at].Err = renewals[i].grant(batch[i])
		}
	}
	return results, nil
}

// rounds parts the requests so that no name occurs twice in a round: a
// statement changes each row once. There is one round unless somebody renews
// two claims to one name.
func rounds(reqs []abstractions.RenewRequest) (rounds [][]int) {
	seen := make(map[string]int, len(reqs)) // how often
	for i := range reqs {
		round := seen[reqs[i].Name]
		seen[reqs[i].Name]++
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], i)
	}
	return rounds
}
