package servertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Timeout bounds a step on a busy machine. A step usually takes milliseconds.
const Timeout = time.Minute

// Bounded returns a context for one step of a test or of its clean-up. The context ends after
// Timeout.
func Bounded(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), Timeout)
}

// Eventually waits until check returns nil, for at most Timeout. The failure message begins with
// the text what.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := Bounded(t)
	defer cancel()
	if err := until(ctx, nil, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

var errEnded = errors.New("the server has ended")

// until calls check repeatedly until it returns nil. It gives up when the context ends or end is
// closed.
func until(ctx context.Context, end <-chan struct{}, check func(context.Context) error) error {
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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
