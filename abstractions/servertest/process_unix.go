//go:build unix

package servertest

import (
	"os/exec"
	"syscall"
)

func pause(c *exec.Cmd) error  { return c.Process.Signal(syscall.SIGSTOP) }
func resume(c *exec.Cmd) error { return c.Process.Signal(syscall.SIGCONT) }
