package run

import (
	"context"
	"time"
)

// clock measures the time since the start of a run. The processes of a run share the start.
type clock struct{ start time.Time }

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at converts an instant of this process's clock.
func (c *clock) at(t time.Time) time.Duration { return t.Sub(c.start) }

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// inBubble reports whether this is a bubble of testing/synctest, where times are exact.
func inBubble() bool { return time.Now().Year() == 2000 }
