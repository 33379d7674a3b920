//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// terminate asks a process to end. A paused one has to run for that.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}

func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
