// Package exit has the exit codes of the command (docs/cli.md).
package exit

// Exit codes. The exit code of a command that `leasing run` started is passed on.
const (
	No            = 1   // the answer is no: see each command
	Busy          = 75  // EX_TEMPFAIL of sysexits.h: another holder has the name
	Lost          = 124 // as timeout(1): the lease was lost, and the command was stopped
	Failed        = 125 // as env(1): leasing itself failed
	NotExecutable = 126
	NotFound      = 127
	Signal        = 128 // plus the signal's number
)

// Error ends the program with a code. If Err is nil, nothing is printed.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
