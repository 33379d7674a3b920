package suite

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// guard is the test that a check and its harness see. Its FailNow may be
// called from any goroutine and ends the calling goroutine. Its context and the
// goroutines it started end with the check, before the subtest cleans up.
type guard struct {
	testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	helpers sync.WaitGroup
	leftOut string // why the check does not apply to this provider; "" if it does apply
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

// Go runs f concurrently with the check. The check ends after f.
func (g *guard) Go(f func()) { g.helpers.Go(f) }

// end ends the context, and waits for the goroutines. A goroutine that hangs fails the check.
func (g *guard) end() {
	g.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.helpers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(2 * CallTimeout):
		g.Error("a goroutine of the check hangs")
	}
}
