package run

import (
	"context"
	"time"
)

// clock measures the time since the start of a run. All processes of a run use the same start.
type clock struct{ start time.Time }

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at converts a time on this process's clock to the run's time.
func (c *clock) at(t time.Time) time.Duration { return t.Sub(c.start) }

// pause waits until d has passed or ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// inBubble reports whether the caller is in a bubble of testing/synctest, where times are exact.
func inBubble() bool { return time.Now().Year() == 2000 }
