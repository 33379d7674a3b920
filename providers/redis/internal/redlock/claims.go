package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// The attempts of a claim in this process, by all of its providers, take turns: an attempt without a majority takes back
// votes that another attempt may be counting. No other process asks for the same claim, since IDs are random.
var turns sync.Map // by claim: a channel that is closed when the claim's attempt in flight ends

type claimKey struct{ name, id string } // the name's key

// tries is the number of the latest attempt. It starts at the current time, so that a late copy of an earlier process'
// attempt is not mistaken for an attempt of this process.
var tries atomic.Int64

func init() { tries.Store(time.Now().UnixMicro()) }

// takeTurn waits for the claim's turn. It returns the number of the attempt, which is greater than all earlier numbers,
// and leave, which ends the turn.
func takeTurn(ctx context.Context, k claimKey) (try int64, leave func(), err error) {
	mine := make(chan struct{})
	for {
		other, taken := turns.LoadOrStore(k, mine)
		if !taken {
			return tries.Add(1), func() { turns.Delete(k); close(mine) }, nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return 0, nil, failure.Of(ctx.Err())
		}
	}
}
