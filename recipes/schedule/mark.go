package schedule

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

const (
	// tickFormat is RFC 3339 for times in UTC.
	tickFormat = "2006-01-02T15:04:05.999999999Z"
	// markWaitLimit bounds the wait for a mark's lease.
	markWaitLimit = 10 * time.Second
	// markReleaseTimeout bounds the request that may shorten a mark's lease.
	markReleaseTimeout = time.Second
	// markSlack is the time for which a mark outlasts its tick, to allow for differences between
	// the processes' clocks.
	markSlack = time.Hour
)

// slack returns markSlack, or half the longest TTL of the backend if that is less.
func slack(c leasing.Capabilities) time.Duration {
	if c.MaxTTL > 0 {
		return min(markSlack, c.MaxTTL/2)
	}
	return markSlack
}

// markName returns the name of a tick's mark. All marks of a schedule have the same first part,
// which is the default scope of metrics.
func (o Options) markName(tick time.Time) string {
	return o.Name + "/tick/" + tick.Format(tickFormat)
}

// isMarked reports whether a tick has been marked: whether its lease was ever
// held. The backend keeps the latest token of a name.
func (r *runner) isMarked(ctx context.Context, tick time.Time) (bool, error) {
	record, err := r.manager.Inspect(ctx, r.markName(tick))
	return record.Token != 0, err
}

// isMarkedNow is like isMarked, but does not rely on reads that may lag: where reads may lag, it
// uses a Break, which returns the latest token.
func (r *runner) isMarkedNow(ctx context.Context, tick time.Time) (bool, error) {
	if !r.manager.Capabilities().ReadsMayLag {
		return r.isMarked(ctx, tick)
	}
	mark, err := r.manager.Break(ctx, r.markName(tick), leasing.BreakOptions{}) // a token shows that there was a mark
	return mark.Token != 0, err
}

// mark marks a tick: it acquires the mark's lease and keeps the name taken until after
// the tick is no longer current, since a backend may forget a free name. mark waits,
// since a waiting acquire is one claim with one ID for all its requests: a request whose
// reply was lost does not block the next.
func (r *runner) mark(ctx context.Context, tick time.Time) error {
	duration := r.markDuration(tick)
	lease, err := r.manager.With(leasing.AcquireOptions{WaitLimit: markWaitLimit, AtLeast: duration, NoAutoRenew: true}).Acquire(ctx, r.markName(tick))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, markReleaseTimeout)
	defer cancel()
	_ = lease.Release(ctx) // the name stays taken, even after an error
	return nil
}

// markDuration returns how long a tick's mark has to last from now. It counts the whole of
// StartWithin, even if the next tick comes earlier: another process may see a later next tick, or
// none, since the result of Next can depend on its argument.
func (r *runner) markDuration(tick time.Time) time.Duration {
	c := r.manager.Capabilities()
	left := tick.Add(r.StartWithin).Sub(r.now())
	duration := max(min(max(left, 0), r.StartWithin)+slack(c), c.MinTTL)
	if c.MaxTTL > 0 { // a clock that was stepped back
		duration = min(duration, c.MaxTTL)
	}
	return duration
}
