//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The names of the two guards, and of the process that becomes the command, in a list of processes.
const (
	outerName = "leasing outer guard"
	innerName = "leasing guard"
	stubName  = "leasing exec"
)

// guardArgs are the arguments of a guard before the command line: files and settings.
type guardArgs struct {
	deadlines  int  // the pipe of deadlines
	inner      int  // for the outer guard: the inner guard's pipe of deadlines; for the inner guard: a pipe that closes when the outer guard ends
	reports    int  // the pipe of the inner guard's reports to leasing
	foreground bool // the command's group has the terminal
	stub       bool // the command needs its own process ID in its environment, or has to ignore a signal that a guard needs
	ignored    signalSet
}

func (o guardArgs) String() string {
	return fmt.Sprint(o.deadlines, o.inner, o.reports, o.foreground, o.stub, o.ignored)
}

func parseGuardArgs(text string) (o guardArgs, err error) {
	_, err = fmt.Sscan(text, &o.deadlines, &o.inner, &o.reports, &o.foreground, &o.stub, &o.ignored)
	return o, err
}

// inheritFiles returns the files of a process that is about to be started: the inherited files at their own numbers,
// and more files at free numbers. It also returns the numbers of the files in more.
func inheritFiles(more ...uintptr) (files []uintptr, at []int) {
	files = []uintptr{0, 1, 2}
	for n := 3; len(more) > 0; n++ {
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			files = append(files, uintptr(n))
			continue
		}
		files, at, more = append(files, more[0]), append(at, n), more[1:]
	}
	return files, at
}

// report is a message of the inner guard about the command.
type report struct {
	kind  string
	code  int           // ended: the exit code; started: the process ID; stopped: the signal
	group int           // started: the process group
	at    time.Duration // the time of the event, on the boot clock
	err   error         // why the command could not be started
}

const (
	kindStarted = "started"
	kindStopped = "stopped" // by a signal: it may go on
	kindEnded   = "ended"
	kindAlone   = "alone" // no descendant of the command is left
)

// send writes the report as one line, in one write.
func (r report) send(file int) {
	text := ""
	if r.err != nil {
		text = strings.Join(strings.Fields(r.err.Error()), " ")
	}
	_, _ = unix.Write(file, fmt.Appendf(nil, "%s %d %d %d %s\n", r.kind, r.code, r.group, bootTime(), text))
}

func parseReport(line string) (r report, ok bool) {
	n, err := fmt.Sscanf(line, "%s %d %d %d", &r.kind, &r.code, &r.group, &r.at)
	if parts := strings.SplitN(line, " ", 5); len(parts) == 5 && parts[4] != "" {
		r.err = errors.New(parts[4])
	}
	return r, err == nil && n == 4
}
