package torture

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// resource is what the names protect. It checks the tokens of writes, and fills in
// their order and whether they were accepted.
type resource interface {
	write(ctx context.Context, w *write) error
}

// fenced is the resource of a run.
type fenced struct {
	fence  fencing.Fence
	writes atomic.Int64
}

func newFenced(fence fencing.Fence) *fenced {
	if fence == nil {
		fence = new(fencing.Gates).Do
	}
	return &fenced{fence: fence}
}

func (f *fenced) write(ctx context.Context, w *write) error {
	err := f.fence(ctx, w.Name, w.Token, func(context.Context) error {
		w.Order, w.Accepted = int(f.writes.Add(1)), true
		return nil
	})
	switch {
	case errors.Is(err, leasing.ErrStale):
		w.Order, w.Accepted = int(f.writes.Add(1)), false
		return nil
	case err == nil && !w.Accepted:
		return errors.New("torture: Options.Fence has neither written nor refused to")
	}
	return err
}
