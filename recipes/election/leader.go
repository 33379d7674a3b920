package election

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Leader is the leader of an election at the time of the read. The zero Leader
// means that there is no leader, or that the leader's identity is not confirmed yet.
type Leader struct {
	Owner     string            // of the leader's manager: leasing.Options.Owner
	Token     int64             // of the leader's lease; rises with each term
	Metadata  map[string]string // Options.Lease.Metadata: its address, for example
	ElectedAt time.Time         // by the backend's clock; zero if the backend does not store the time
}

// Elected reports whether there is a leader.
func (l Leader) Elected() bool { return l.Token != 0 }

// Current returns the leader of the election with the given name. It needs no
// candidate, so followers can also call it from outside the election.
func Current(ctx context.Context, manager *leasing.Manager, name string) (Leader, error) {
	if manager == nil {
		return Leader{}, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	record, err := manager.Inspect(ctx, name)
	if err != nil || !record.Held || record.Unconfirmed {
		return Leader{}, err
	}
	return Leader{
		Owner: record.Owner, Token: record.Token, Metadata: record.Metadata, ElectedAt: record.AcquiredAt,
	}, nil
}

// Watch iterates over the leaders of an election: the present leader, or the zero Leader, and then each change of
// the leader or of its metadata. It reads the backend at intervals of every, plus or minus a tenth (0 means 1 s),
// so it may miss a leader with a shorter term.
//
// When a request fails, Watch yields the last known Leader with the error, once
// for each series of failures, and continues. The first success after that is
// yielded even if nothing has changed. The iteration ends when ctx or the loop
// does, and after an error that retrying can't fix.
func Watch(ctx context.Context, manager *leasing.Manager, name string, every time.Duration) iter.Seq2[Leader, error] {
	if every <= 0 {
		every = time.Second
	}
	return func(yield func(Leader, error) bool) {
		var last Leader
		news, failing := true, false
		for ctx.Err() == nil {
			leader, err := Current(ctx, manager, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing && !yield(last, err) || errors.Is(err, leasing.ErrClosed) || errors.Is(err, leasing.ErrInvalid) {
					return
				}
				failing = true
			case news || failing || leader.Token != last.Token || !maps.Equal(leader.Metadata, last.Metadata):
				last, news, failing = leader, false, false
				if !yield(leader, nil) {
					return
				}
			}
			recipe.Sleep(ctx, time.Duration(float64(every)*(0.9+0.2*rand.Float64())))
		}
	}
}
