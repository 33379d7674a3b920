package schedule

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

const (
	// tickFormat is RFC 3339 for times in UTC.
	tickFormat = "2006-01-02T15:04:05.999999999Z"
	// markLimit is how long to try to set a mark.
	markLimit = 10 * time.Second
	// markRelease is how long to wait for the release of its lease. What has
	// not been done by then happens in the background, or the TTL does it.
	markRelease = time.Second
)

// markName is the name of a tick's mark. "tick" is a part of its own so that
// no more than one scope of metrics comes of a name without parts.
func (o Options) markName(tick time.Time) string {
	return o.Name + "/tick/" + tick.Format(tickFormat)
}

// marked reports whether a tick has been marked: whether its lease was ever
// held, whatever became of it. The backend keeps the latest token of a name.
func (r *runner) marked(ctx context.Context, tick time.Time) (bool, error) {
	record, err := r.manager.Inspect(ctx, r.markName(tick))
	return record.Token != 0, err
}

// surelyMarked is marked where no read may lag: a Break tells the latest token.
func (r *runner) surelyMarked(ctx context.Context, tick time.Time) (bool, error) {
	if !r.manager.Capabilities().ReadsMayLag {
		return r.marked(ctx, tick)
	}
	mark, err := r.manager.Break(ctx, r.markName(tick), nil) // that there was one is enough
	return mark.Token != 0, err
}

// mark marks a tick. It waits, since that is one claim with one ID however
// often it has to ask: a reply that was lost does not stand in its own way.
func (r *runner) mark(ctx context.Context, tick time.Time) error {
	lease, err := r.manager.Acquire(ctx, r.markName(tick), &leasing.AcquireOptions{WaitLimit: markLimit})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, markRelease)
	defer cancel()
	_ = lease.Release(ctx) // to have been held is enough
	return nil
}
