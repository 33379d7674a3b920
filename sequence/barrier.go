package sequence

import (
	"context"
	"time"
)

// Bounds of the pause between two polls of the store, if no wake-up comes sooner.
const (
	firstPoll = 25 * time.Millisecond
	lastPoll  = time.Second
)

// await returns when ready returns true or an error. It subscribes to wake-ups before the first
// call of ready, so that it misses no number that is closed in between.
func await(ctx context.Context, records Records, stream string, ready func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wakeups, _ := records.Watch(ctx, stream) // if this fails, await only polls
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		if done, err := ready(ctx); done || err != nil {
			return err
		}
		select {
		case _, ok := <-wakeups:
			if !ok {
				wakeups = nil
			}
		case <-time.After(poll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Wait returns when no number below seq is open in a stream, or ctx ends.
func Wait(ctx context.Context, records Records, stream string, seq int64) error {
	return await(ctx, records, stream, func(ctx context.Context) (bool, error) {
		lowest, err := records.LowestOpen(ctx, stream)
		return lowest == 0 || lowest >= seq, err
	})
}
