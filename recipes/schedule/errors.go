package schedule

import (
	"errors"
	"fmt"
	"time"
)

// ErrTimeout is the cause with which the context of a run ends after
// Options.Timeout.
var ErrTimeout = errors.New("schedule: the run took longer than its timeout")

// SkippedError says that ticks were skipped because they came while the job
// was running. The process that ran the job reports them, with the time of
// the last one.
type SkippedError struct {
	Ticks int       // how many
	Run   time.Time // the tick of the run that took so long
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("schedule: %d ticks skipped: the run of %s was still under way", e.Ticks, e.Run.Format(time.RFC3339))
}

// MissedError says that a tick may have passed without a run. This process
// could not start it, and does not know whether another one did.
type MissedError struct {
	Err error // what kept this one from starting it
}

func (e *MissedError) Error() string { return "schedule: tick missed: " + e.Err.Error() }
func (e *MissedError) Unwrap() error { return e.Err }

// PanicError is a panic of the job.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine, as debug.Stack returns it
}

func (e *PanicError) Error() string { return fmt.Sprintf("schedule: the job panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
