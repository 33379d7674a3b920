package sqllease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// RenewBatch renews many claims in one statement: see leasing.BatchRenewer. On
// PostgreSQL a row that another transaction has locked is left out, so that it
// doesn't hold the others up; its outcome is reported as unknown.
func (s *Store) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]RenewedClaim, error) {
	results := make([]RenewedClaim, len(reqs))
	err := s.call(ctx, "renew", "", func(ctx context.Context) error {
		rounds := s.rounds(reqs, results)
		for _, round := range rounds {
			batch := make([]abstractions.RenewRequest, len(round))
			for i, n := range round {
				batch[i] = reqs[n]
			}
			verdicts, err := s.backend.renew(ctx, batch, false)
			if err != nil {
				return err
			}
			for i, n := range round {
				results[n].Claim, results[n].Err = verdicts[i].claim(batch[i])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range results {
		results[i].Err = s.failed(ctx, "renew", reqs[i].Name, results[i].Err)
	}
	return results, nil
}

// rounds parts the valid requests so that no name occurs twice in a round: a
// statement changes each row once. There is one round unless somebody renews
// two claims to one name.
func (s *Store) rounds(reqs []abstractions.RenewRequest, results []RenewedClaim) (rounds [][]int) {
	seen := make(map[string]int, len(reqs)) // how often
	for i, req := range reqs {
		if err := req.Validate(s.capabilities); err != nil {
			results[i].Err = err
			continue
		}
		round := seen[req.Name]
		seen[req.Name]++
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], i)
	}
	return rounds
}
