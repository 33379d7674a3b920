package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

func (m *Manager) isClosing() bool { return m.accepting.Err() != nil }

// track counts work that Close waits for, until goroutines.Done, unless the manager
// has ended.
func (m *Manager) track() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running.Err() != nil {
		return false
	}
	m.goroutines.Add(1)
	return true
}

// spawn runs f in a goroutine that Close waits for, unless the manager has ended.
func (m *Manager) spawn(f func()) bool {
	if !m.track() {
		return false
	}
	go func() {
		defer m.goroutines.Done()
		f()
	}()
	return true
}

// goTracked runs f in a goroutine. Close waits for the goroutine unless the manager has ended.
func (m *Manager) goTracked(f func()) {
	if !m.spawn(f) {
		go f()
	}
}

// leave ends a call that m.calls counts.
func (m *Manager) leave() {
	m.calls.Add(-1)
	if m.isClosing() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checkIdle()
	}
}

// giveUp sends one request to release a claim.
func (m *Manager) giveUp(ctx context.Context, pending *dispatch.Overdue, bound time.Duration, req abstractions.ReleaseRequest) error {
	b := dispatch.WithBound(ctx, bound)
	defer b.Cancel()
	_, err := dispatch.Send(b, m.requests, pending, m.provider, func(p abstractions.Provider, ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, p.Release(ctx, req)
	}, req, nil)
	if err != nil && dispatch.CutOff(b, err) { // an error of the context is no answer of the backend's, even if it says that the request was not applied
		return lifecycle.NoAnswer(err)
	}
	return err
}

// log writes to the application's logger, which may panic.
func (m *Manager) log(level slog.Level, text string, args ...any) {
	defer func() { _ = recover() }() // a panic of the logger has no other place to be reported
	m.config.Logger.With("provider", m.caps.Provider).Log(context.Background(), level, text, args...)
}

// random returns a number of at least 0 and under 1. It calls the application's code, so
// the caller must not hold a lock.
func (m *Manager) random() (number float64) {
	defer func() {
		if p := recover(); p != nil {
			number = 0.5
			m.log(slog.LevelError, "leasing: Tuning.Random panicked", "panic", p)
		}
	}()
	return m.config.Random()
}

// orBackground replaces a nil context, which never ends.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// checkGrant refuses an answer for another claim or, once this claim has a token, for another token.
func (l *lease) checkGrant(g abstractions.Grant) error {
	if g.ID != l.id || g.Name != l.name || l.token != 0 && g.Token != l.token || g.Token <= 0 || g.Token > abstractions.MaxToken || g.TTL <= 0 {
		return fmt.Errorf("%w: the provider answered for %q, claim %s, token %d, TTL %v", abstractions.ErrUnavailable, g.Name, abstractions.FingerprintOf(g.ID), g.Token, g.TTL)
	}
	return nil
}
