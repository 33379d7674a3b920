package providertest

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// guard is the test that a check and its harness see. Its FailNow may be
// called from any goroutine and ends that one. Its context and the goroutines it
// started end with the check, before the subtest cleans up.
type guard struct {
	testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	helpers sync.WaitGroup
	leftOut string // why the check is not about this provider; "" if it is
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
	g.TB.Error(args...)
	g.FailNow()
}

func (g *guard) Fatalf(format string, args ...any) {
	g.TB.Errorf(format, args...)
	g.FailNow()
}

// Go runs f beside the check, which ends after it.
func (g *guard) Go(f func()) { g.helpers.Go(f) }

// end ends the context, and waits for the goroutines.
func (g *guard) end() {
	g.cancel()
	g.helpers.Wait()
}
