package providertest

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// guard is the test that a check and its harness see. Its FailNow may be
// called from any goroutine and ends that one. Its context, the goroutines it
// started and its clean-up end with the check, and not later with the subtest.
type guard struct {
	testing.TB
	ctx      context.Context
	cancel   context.CancelFunc
	helpers  sync.WaitGroup
	mu       sync.Mutex
	cleanups []func()
}

func newGuard(t testing.TB) *guard {
	g := &guard{TB: t}
	g.ctx, g.cancel = context.WithCancel(t.Context())
	return g
}

func (g *guard) Context() context.Context { return g.ctx }

func (g *guard) FailNow() {
	g.TB.Fail()
	runtime.Goexit()
}

func (g *guard) Fatal(args ...any) {
	g.Helper()
	g.TB.Error(args...)
	g.FailNow()
}

func (g *guard) Fatalf(format string, args ...any) {
	g.Helper()
	g.TB.Errorf(format, args...)
	g.FailNow()
}

func (g *guard) Cleanup(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cleanups = append(g.cleanups, f)
}

// Go runs f beside the check, which ends after it.
func (g *guard) Go(f func()) { g.helpers.Go(f) }

// end cleans up, the last first, and goes on when one of them fails.
func (g *guard) end() {
	g.cancel()
	g.helpers.Wait()
	if f := g.pop(); f != nil {
		defer g.end()
		f()
	}
}

func (g *guard) pop() func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := len(g.cleanups) - 1
	if last < 0 {
		return nil
	}
	f := g.cleanups[last]
	g.cleanups = g.cleanups[:last]
	return f
}
