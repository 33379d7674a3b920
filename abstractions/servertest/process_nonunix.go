//go:build !unix

package servertest

import (
	"errors"
	"os/exec"
)

func pause(*exec.Cmd) error  { return errors.ErrUnsupported }
func resume(*exec.Cmd) error { return errors.ErrUnsupported }
