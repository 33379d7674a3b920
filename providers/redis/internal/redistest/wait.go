package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// patience is how long a step may take on a machine that is busy with much
// else. Usually it takes milliseconds.
const patience = time.Minute

// bounded is a context for one step, also of a test's clean-up.
func bounded(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), patience)
}

var errEnded = errors.New("the server has ended")

// until asks again and again, until the answer is nil. It gives up when the
// context or the process ends; a nil process never ends.
func until(ctx context.Context, p *process, check func(context.Context) error) error {
	var end <-chan struct{}
	if p != nil {
		end = p.end
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-end:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w; at last: %w", ctx.Err(), err)
		}
	}
}
