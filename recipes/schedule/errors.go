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
// still ran. The process that ran it reports them, with the last of them.
type SkippedError struct {
	Ticks int       // how many
	Run   time.Time // the tick of the run that took so long
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("schedule: %d ticks skipped: the run of %s was still under way", e.Ticks, e.Run.Format(time.RFC3339))
}

// MissedError says that, as far as this process knows, a tick may have passed
// without a run: another process may know better.
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
