package torture

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// resource is the protected resource. It checks the tokens of writes, and sets their
// Order and Accepted.
type resource func(ctx context.Context, w *write) error

// fenced is the resource of a run.
func fenced(fence fencing.Fence) resource {
	if fence == nil {
		fence = new(fencing.Gates).Do
	}
	var writes atomic.Int64
	return func(ctx context.Context, w *write) error {
		err := fence(ctx, w.Name, w.Token, func(context.Context) error {
			w.Order, w.Accepted = int(writes.Add(1)), true
			return nil
		})
		switch {
		case errors.Is(err, leasing.ErrStale):
			w.Order, w.Accepted = int(writes.Add(1)), false
			return nil
		case err == nil && !w.Accepted:
			return errors.New("torture: Options.Fence has neither written nor refused to")
		}
		return err
	}
}
