package leasing

import (
	"context"
	"slices"
	"time"
)

func (m *manager) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.isClosing()
	m.shut()
	var idle chan struct{}
	if first {
		idle = make(chan struct{})
		m.idle = idle
		m.checkIdle()
	}
	m.mu.Unlock()
	if first {
		return m.close(ctx, idle)
	}
	select {
	case <-m.done:
		return m.result
	case <-ctx.Done():
		return &Error{Op: "close", Provider: m.caps.Provider, Err: context.Cause(ctx)}
	}
}

// close runs once.
func (m *manager) close(ctx context.Context, idle <-chan struct{}) error {
	for _, l := range m.snapshot() {
		l.mu.Lock()
		l.endWork(errClosedRelease)
		l.mu.Unlock()
	}
	m.hurryCleanups()
	var inUse []string
	select {
	case <-idle:
	case <-ctx.Done():
		inUse = m.forsake(context.Cause(ctx))
	}
	unreleased := m.endLifetime()
	m.awaitGoroutines(ctx)
	m.observers.flush(m.options.ObserverTimeout)
	m.clock.close()
	if len(inUse) > 0 || unreleased > 0 {
		slices.Sort(inUse)
		left := &CloseError{InUse: inUse, Unreleased: unreleased, Err: context.Cause(ctx)}
		m.result = &Error{Op: "close", Provider: m.caps.Provider, Err: left}
	}
	close(m.done)
	return m.result
}

// endLifetime ends what the manager does by itself, and tells how many
// clean-ups it drops that have not been answered even once.
func (m *manager) endLifetime() (unreleased int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
	return m.owed
}

func (m *manager) snapshot() []*lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.leases)
}

// hurryCleanups makes each clean-up try once more now: see cleanup.try.
func (m *manager) hurryCleanups() {
	for _, item := range m.schedule.all(nil) {
		if c, ok := item.(*cleanup); ok {
			m.schedule.hurry(c)
		}
	}
}

// forsake stops renewing the leases that are still in use and returns their
// names. It does not release them: somebody else would get in beside the
// holder, who may need the rest of the TTL to notice.
func (m *manager) forsake(cause error) (inUse []string) {
	now := m.clock.now()
	for _, l := range m.snapshot() {
		l.mu.Lock()
		if l.phase >= releasing { // no longer in use; its release goes on without us
			l.mu.Unlock()
			continue
		}
		inUse = append(inUse, l.name)
		l.lose(now, LostClosed, cause)
	}
	return inUse
}

// awaitGoroutines waits for the requests under way, whose context has ended.
// A provider that does not heed it must not hold Close up for ever.
func (m *manager) awaitGoroutines(ctx context.Context) {
	ended := make(chan struct{})
	go func() { m.goroutines.Wait(); close(ended) }()
	patience := time.NewTimer(m.options.RequestTimeout)
	defer patience.Stop()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	case <-patience.C:
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseGrace)
	defer cancel()
	select {
	case <-ended:
	case <-bound.Done():
		m.options.Logger.Error("leasing: the provider has not returned from a request whose context has ended", "provider", m.caps.Provider)
	}
}
