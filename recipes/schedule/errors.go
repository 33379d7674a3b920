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
// the last skipped tick.
type SkippedError struct {
	Ticks int       // how many
	Run   time.Time // the tick of the run that was still running
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("schedule: %d ticks skipped: the run of %s was still under way", e.Ticks, e.Run.Format(time.RFC3339))
}

// MissedError says that a tick may have passed without a run. This process
// could not start the run, and does not know whether another process started the run.
type MissedError struct {
	Err error // the error that kept this process from starting the run
}

func (e *MissedError) Error() string { return "schedule: tick missed: " + e.Err.Error() }
func (e *MissedError) Unwrap() error { return e.Err }

// OddTickError says that Options.Next contradicts itself, which cron libraries do around clock changes: it answered with the zero
// time or with a time that is not after its argument, it panicked, or it gave different ticks for two times with no tick in
// between. The schedule continues with Tick. Its ticks may differ from those of another process, or may miss some.
type OddTickError struct {
	After  time.Time // Next was asked for the tick after this time
	Answer time.Time // zero if Next returned the zero time or panicked
	Tick   time.Time // the next tick that the schedule follows
	Err    error     // a *PanicError of Next, or nil
}

func (e *OddTickError) Error() string {
	answer := e.Answer.Format(time.RFC3339Nano)
	switch {
	case e.Err != nil:
		answer = e.Err.Error()
	case e.Answer.IsZero():
		answer = "none"
	}
	return fmt.Sprintf("schedule: odd timetable: asked for the tick after %s, Options.Next answered: %s; the next tick is %s",
		e.After.Format(time.RFC3339Nano), answer, e.Tick.Format(time.RFC3339Nano))
}

func (e *OddTickError) Unwrap() error { return e.Err }

// PanicError is a panic of the job, or of Options.Next.
type PanicError struct {
	Value    any    // of the panic
	Stack    []byte // of the goroutine, as debug.Stack returns it
	function string // the function that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("schedule: %s panicked: %v", e.function, e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
