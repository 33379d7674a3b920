package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/fencing"
)

// resource is the protected resource. It checks the tokens of writes, and sets their
// Order and Accepted.
type resource func(ctx context.Context, w *history.Write) error

// newResource returns the resource of a run.
func newResource(fence fencing.Fence) resource {
	if fence == nil {
		fence = new(fencing.Gates).Do
	}
	var writes atomic.Int64
	return func(ctx context.Context, w *history.Write) error {
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

// stage is the part of a run that the run's side of each worker process uses.
type stage struct {
	options   Options
	names     []string
	clock     *clock
	recording *history.Recording
	resource  resource
}

func (r *stage) now() time.Duration { return r.clock.now() }

func (r *stage) violation(check history.Check, format string, args ...any) {
	r.recording.Enter(history.Violation{Check: check, At: r.now(), Text: fmt.Sprintf(format, args...)})
}

func (r *stage) note(d Disturbance) {
	f := history.Fault{At: r.now(), Worker: -1, Kind: d.Kind, Rule: "disturbance"}
	if d.For > 0 {
		f.Until = f.At + d.For
	}
	r.recording.Enter(f)
}
