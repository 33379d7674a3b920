package suite

import "testing"

// Check tests one promise.
type Check struct {
	Name string
	// Waits says that the check spends its time waiting for leases to run out.
	Waits bool
	// Needs names the field of Harness that the check requires, or is "".
	Needs string
	// Long says that -short leaves the check out.
	Long bool
	// Repeats says that in real time the check is repeated if it fails while the machine stalls.
	Repeats bool
	Run     func(e *Env)
}

// Run runs a check to its end, and returns the reason if the check has called LeaveOut, else "". It
// returns even if FailNow has ended the check, so that the caller's goroutine continues. A check that
// waits frees its slot when its clients are open.
func (b Backend) Run(t testing.TB, c Check, free func()) (leftOut string) {
	g := newGuard(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer g.end()
		e := newEnv(g, b, c.Name)
		if c.Waits {
			free()
		}
		c.Run(e)
	}()
	<-done
	return g.leftOut
}
