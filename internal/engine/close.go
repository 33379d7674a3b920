package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// After closeWarning, Close logs the work that it still waits for. It does so again after growing pauses of up to
// closeWarningMax.
const (
	closeWarning    = 2 * time.Second
	closeWarningMax = 30 * time.Second
)

// errOutlasted is the error with which a Close without a deadline gives up.
var errOutlasted = errors.New("leases were held for longer than they were trusted when Close began")

func (m *Manager) Close(ctx context.Context) error {
	ctx = orBackground(ctx)
	_, bounded := ctx.Deadline()
	ctxDone := ctx.Done()
	m.mu.Lock()
	first := !m.isClosing()
	var idle chan struct{}
	if first {
		m.giveUpAt = m.clock.Now().Add(m.config.RequestTimeout)
		m.refuse()
		idle = make(chan struct{})
		m.idle = idle
		m.checkIdle()
	}
	m.mu.Unlock()
	if first {
		return m.close(ctx, bounded, idle)
	}
	select {
	case <-m.done:
		return m.result
	case <-ctxDone:
		return &abstractions.Error{Op: "close", Provider: m.caps.Provider, Err: context.Cause(ctx)}
	}
}

// close runs once.
func (m *Manager) close(ctx context.Context, bounded bool, idle <-chan struct{}) error {
	defer close(m.done)
	defer m.telemetry.Close()
	leases := m.snapshot()
	for _, l := range leases {
		l.mu.Lock()
		l.apply(trust.Instant{}, l.life.EndWork(errManagerClosed))
		l.mu.Unlock()
	}
	for _, item := range m.timetable.All(nil) {
		if c, ok := item.(*cleanup); ok {
			m.timetable.MakeDueNow(c) // one more try: see cleanup.try
		}
	}
	left := abstractions.CloseError{}
	if !m.awaitIdle(ctx, m.closeBound(bounded, leases), idle) {
		left.Err = context.Cause(ctx)
		if left.Err == nil {
			left.Err = errOutlasted
		}
		left.InUse, left.Unreleased = m.abandonLeases(left.Err)
	}
	m.mu.Lock()
	m.stop()
	left.Unreleased += int(m.unanswered.Load()) // clean-ups that are dropped
	denied := m.denied
	m.mu.Unlock()
	m.awaitGoroutines(ctx)
	m.observers.Flush(m.config.ObserverTimeout)
	m.clock.Alarm.Close()
	if len(left.InUse) > 0 || left.Unreleased > 0 {
		if left.Err == nil {
			left.Err = denied
		}
		if left.Err == nil {
			left.Err = fmt.Errorf("%w: no answer within %v", abstractions.ErrUnavailable, m.config.RequestTimeout)
		}
		slices.Sort(left.InUse)
		m.result = &abstractions.Error{Op: "close", Provider: m.caps.Provider, Err: &left}
	}
	return m.result
}

// closeBound returns the bound of Close's wait for holders: forever if its context has a deadline,
// and otherwise the longest trust that was left when Close began. A holder that has not released
// its lease by then is assumed to have forgotten the release.
func (m *Manager) closeBound(bounded bool, leases []*lease) time.Duration {
	if bounded {
		return trust.Forever
	}
	now, longest := m.clock.Now(), 2*m.config.RequestTimeout // time for calls and clean-ups, which have their own bounds
	for _, l := range leases {
		l.mu.Lock()
		left := l.life.Remaining(now)
		l.mu.Unlock()
		if left == trust.Forever { // an infinite lease
			left = m.config.TTL
		}
		longest = max(longest, left)
	}
	return longest
}

// awaitIdle waits until no work is under way, until ctx ends or until bound has passed, and meanwhile logs the leases and calls
// that are left. It reports whether no work is left.
func (m *Manager) awaitIdle(ctx context.Context, bound time.Duration, idle <-chan struct{}) bool {
	began := time.Now()
	end := time.NewTimer(bound)
	defer end.Stop()
	pause := closeWarning
	warn := time.NewTimer(pause)
	defer warn.Stop()
	for {
		select {
		case <-idle:
			return true
		case <-ctx.Done():
		case <-end.C:
		case <-warn.C:
			m.warnOfClose(time.Since(began))
			pause = min(4*pause, closeWarningMax)
			warn.Reset(pause)
			continue
		}
		select {
		case <-idle: // it became idle at the same time
			return true
		default:
			return false
		}
	}
}

func (m *Manager) warnOfClose(waited time.Duration) {
	var inUse, ending []string
	for _, l := range m.snapshot() {
		l.mu.Lock()
		if !l.life.Over() {
			inUse = append(inUse, l.name)
		} else {
			ending = append(ending, l.name)
		}
		l.mu.Unlock()
	}
	slices.Sort(inUse)
	slices.Sort(ending)
	m.mu.Lock()
	calls, cleanups := m.calls.Load(), m.cleanups
	m.mu.Unlock()
	m.log(slog.LevelWarn, "leasing: Close is waiting", "waited", waited.Round(time.Millisecond), "in_use", summarizeNames(inUse),
		"releasing", summarizeNames(ending), "acquiring", calls, "clean_ups", cleanups)
}

func (m *Manager) snapshot() []*lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.leases)
}

// abandonLeases stops renewing the leases that are still in use and returns their names. It does not release them: another
// process would get the name while the holder still works, since the holder may need the rest of the TTL to notice. It counts the
// other leases, whose release goes on without the manager.
func (m *Manager) abandonLeases(cause error) (inUse []string, unanswered int) {
	now := m.clock.Now()
	for _, l := range m.snapshot() {
		l.mu.Lock()
		if l.life.Over() {
			unanswered++
			l.mu.Unlock()
			continue
		}
		inUse = append(inUse, l.name)
		next := l.apply(now, l.life.Lose(&abstractions.LostError{Reason: abstractions.LostClosed, Err: cause}))
		l.mu.Unlock()
		next.run()
	}
	return inUse, unanswered
}

// awaitGoroutines waits for the requests under way, whose context has ended. A provider that
// ignores its context must not block Close forever.
func (m *Manager) awaitGoroutines(ctx context.Context) {
	ended := make(chan struct{})
	go func() { m.goroutines.Wait(); close(ended) }()
	timer := time.NewTimer(m.config.RequestTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	timer.Reset(releaseGrace)
	select {
	case <-ended:
	case <-timer.C:
		m.log(slog.LevelError, "leasing: the provider has not returned from a request whose context has ended")
	}
}

// summarizeNames joins names, and cuts a long list off after the first few.
func summarizeNames(names []string) string {
	const limit = 10
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}
