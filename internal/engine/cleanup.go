package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/timetable"
	"github.com/distributedleasing/leasing/internal/trust"
)

// cleanup releases a claim without a holder that the backend may grant or may
// have granted: an acquire whose outcome stayed unknown, a renewal that came
// after the loss, or a release that was not answered. cleanup repeats the release
// until the claim's TTL has passed, since a request that was
// delayed on its way may arrive after the first release.
type cleanup struct {
	req   abstractions.ReleaseRequest
	tries lifecycle.Tries

	m *Manager
	// settled is called once, when the first try is over. first is closed after that call.
	settled func()
	first   chan struct{}

	timetable.Entry
	overdue dispatch.Overdue
	mu      sync.Mutex
	next    trust.Instant // when to try; forever while a try is under way
	done    bool
}

// cleanUp starts c, unless c is nil. settled, unless nil, is called when the first try is over. If the
// manager has ended, cleanUp calls settled at once and returns false.
func (m *Manager) cleanUp(c *cleanup, settled func()) bool {
	if c == nil {
		return true
	}
	c.m, c.settled, c.first = m, settled, make(chan struct{})
	m.mu.Lock()
	if m.running.Err() != nil {
		m.mu.Unlock()
		c.settle()
		return false
	}
	m.cleanups++
	m.unanswered.Add(1)
	m.mu.Unlock()
	now := m.clock.Now()
	c.plan(now, max(0, c.tries.From.Left(now)))
	m.telemetry.CleanUps(+1)
	return true
}

// plan sets the time of the next try.
func (c *cleanup) plan(now trust.Instant, in time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = now.Add(in)
	c.m.timetable.Set(c, c.next.Mono, 0)
}

func (c *cleanup) OnDue(now trust.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	left := c.next.Left(now)
	if left == trust.Forever || left > 0 && (!c.m.isClosing() || c.tries.From.Left(now) > 0) { // under way, or woken by a resume
		c.m.timetable.Set(c, trust.AddSaturated(now.Mono, left), 0)
		return
	}
	c.next = trust.Instant{Mono: trust.Forever, Boot: trust.Forever} // until the try is over
	c.m.timetable.Set(c, trust.Forever, 0)
	c.m.cleaner.Add(min(c.m.config.RequestTimeout, max(0, c.tries.Deadline(c.m.closing()).Left(now))), func(time.Duration) { c.try() }) // not later: a waiter may want the name
}

// try releases the claim once and plans the next try, unless the clean-up is done.
func (c *cleanup) try() {
	m := c.m
	bound := min(m.config.RequestTimeout, max(lifecycle.MinRetry, c.tries.Deadline(m.closing()).Left(m.clock.Now())))
	err := m.sendRelease(m.running, &c.overdue, bound, c.req)
	c.settle()

	now, random := m.clock.Now(), m.random()
	next := c.tries.Tried(now, lifecycle.TryResult{Answered: err == nil || isPermanent(err), Denied: isDenied(err)}, m.closing(), random)
	if next.FirstAnswer {
		m.unanswered.Add(-1)
	}
	if next.Done {
		c.finish(now, err)
		return
	}
	if next.Warn {
		m.log(slog.LevelWarn, "leasing: an infinite lease is not released yet", "name", c.req.Name, "attempt", c.tries.Count(), "error", err)
	}
	c.plan(now, next.Pause)
}

func (c *cleanup) settle() {
	if c.tries.Count() > 0 {
		return
	}
	if c.settled != nil {
		c.settled()
		c.settled = nil
	}
	close(c.first)
}

// awaitCleanUps waits for the first try of each clean-up of a name that has begun: a claim of this manager that has no
// holder must not block the next request.
func (m *Manager) awaitCleanUps(ctx context.Context, name string) error {
	if m.unanswered.Load() == 0 {
		return nil
	}
	for _, c := range m.cleanUpsOf(name) {
		select {
		case <-c.first:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.accepting.Done():
			return abstractions.ErrClosed
		}
	}
	return nil
}

// cleanUpsOf returns the clean-ups of a name, without those that first wait for an earlier lease to run out.
func (m *Manager) cleanUpsOf(name string) (begun []*cleanup) {
	for _, item := range m.timetable.All(nil) {
		if c, ok := item.(*cleanup); ok && c.req.Name == name && c.tries.From == (trust.Instant{}) {
			begun = append(begun, c)
		}
	}
	return begun
}

// finish ends the clean-up, whose last try has returned err.
func (c *cleanup) finish(now trust.Instant, err error) {
	m := c.m
	c.mu.Lock()
	c.done = true
	m.timetable.Remove(c)
	c.mu.Unlock()
	defer m.telemetry.CleanUps(-1) // last: telemetry may panic
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups--
	if isDenied(err) && m.isClosing() {
		m.denied = err
	}
	if !c.tries.Answered() && c.tries.Until.Left(now) <= 0 { // no answer is needed: the backend has freed the name by itself
		m.unanswered.Add(-1)
	}
	m.checkIdle()
}
