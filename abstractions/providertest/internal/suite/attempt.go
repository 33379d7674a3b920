package suite

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// A check in real time tolerates a slow machine to some extent. If the machine has stalled for longer than
// maxStall during a check that failed, the check is repeated, up to maxAttempts attempts in all.
const (
	maxAttempts = 5
	maxStall    = 50 * time.Millisecond
)

// RetryOnStall runs a check in real time. It repeats a check that fails if the machine has stalled meanwhile: see WatchStalls.
func RetryOnStall(t testing.TB, watch func() (end func() time.Duration), run func(testing.TB) (leftOut string)) (leftOut string) {
	for n := 1; ; n++ {
		a := &attempt{TB: t}
		end := watch()
		leftOut = run(a)
		a.cleanUp()
		if stall := end(); !a.Failed() || n == maxAttempts || stall < maxStall {
			a.report()
			return leftOut
		}
	}
}

// WatchStalls watches the delays of timers. The function that it returns ends the watch, and returns the longest delay.
func WatchStalls() (end func() time.Duration) {
	const tick = 5 * time.Millisecond
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var stall time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				longest <- stall
				return
			case <-time.After(tick):
				stall = max(stall, time.Since(last)-tick)
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-longest
	}
}

// attempt is a test that collects its failures and its log. Its methods may be called from any goroutine.
type attempt struct {
	testing.TB

	mu       sync.Mutex
	failed   bool
	log      []string
	cleanups []func()
}

func (a *attempt) note(failed bool, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = a.failed || failed
	if text != "" {
		a.log = append(a.log, text)
	}
}

func (a *attempt) Log(args ...any)                   { a.note(false, fmt.Sprintln(args...)) }
func (a *attempt) Logf(format string, args ...any)   { a.note(false, fmt.Sprintf(format, args...)) }
func (a *attempt) Error(args ...any)                 { a.note(true, fmt.Sprintln(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.note(true, fmt.Sprintf(format, args...)) }
func (a *attempt) Fail()                             { a.note(true, "") }

func (a *attempt) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

// cleanUp calls the functions given to Cleanup in reverse order. Such a function may end its goroutine.
func (a *attempt) cleanUp() {
	for {
		a.mu.Lock()
		n := len(a.cleanups)
		if n == 0 {
			a.mu.Unlock()
			return
		}
		f := a.cleanups[n-1]
		a.cleanups = slices.Delete(a.cleanups, n-1, n)
		a.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
}

// report passes on the failures and the log.
func (a *attempt) report() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range a.log {
		a.TB.Log(text)
	}
	if a.failed {
		a.TB.Fail()
	}
}
