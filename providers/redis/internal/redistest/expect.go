package redistest

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"go.uber.org/goleak"
)

// Main is for TestMain. It runs 3 tests at a time, even on one processor: tests mostly wait, for servers and for leases
// to run out, and tests of other packages run at the same time. The flag -parallel still applies. Goroutines left at the end
// are an error.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// go-redis has a goroutine that ends only a second after Close.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// RequireUncertain checks for an error that leaves the outcome of the request unknown.
func RequireUncertain(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, abstractions.ErrUnavailable) {
		t.Fatalf("not unavailable: %v", err)
	}
	for _, certain := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
		abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed,
	} {
		if errors.Is(err, certain) {
			t.Fatalf("%v is also: %v", err, certain)
		}
	}
}

// RequireLost checks that an error reports a claim as lost for the given reason.
func RequireLost(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Fatalf("not lost as %s: %v", reason, err)
	}
}

// AwaitWakeup waits for a wake-up.
func AwaitWakeup(t testing.TB, wakeups <-chan struct{}) {
	t.Helper()
	select {
	case <-wakeups:
	case <-time.After(servertest.Timeout):
		t.Fatal("no wake-up")
	}
}

// AcquireOnWakeups sends an acquire after each wake-up, and at no other time.
func AcquireOnWakeups(t testing.TB, wakeups <-chan struct{}, ask func() error) {
	t.Helper()
	for {
		AwaitWakeup(t, wakeups)
		err := ask()
		if err == nil {
			return
		}
		if !errors.Is(err, abstractions.ErrHeld) { // the start of the subscription sends a wake-up too
			t.Fatal(err)
		}
	}
}
