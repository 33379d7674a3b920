package broken

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// mixer gives the items of a batch each other's answers.
type mixer struct {
	plain
	batch abstractions.BatchRenewer
}

// newMixer breaks a provider that renews in batches; others are not broken.
func newMixer(p abstractions.Provider) abstractions.Provider {
	batch, ok := abstractions.As[abstractions.BatchRenewer](p)
	if !ok {
		return plain{p}
	}
	return mixer{plain{p}, batch}
}

func (p mixer) As(target any) bool {
	batch, ok := target.(*abstractions.BatchRenewer)
	if ok {
		*batch = p
	}
	return ok
}

func (p mixer) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results, err := p.batch.RenewBatch(ctx, reqs)
	if len(results) > 1 {
		results = append(results[1:], results[0])
	}
	return results, err
}
