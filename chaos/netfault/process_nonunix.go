//go:build !unix

package netfault

import (
	"errors"
	"os/exec"
)

var errNoPause = errors.New("only Unix systems stop a process with a signal")

func pause(*exec.Cmd) error  { return errNoPause }
func resume(*exec.Cmd) error { return errNoPause }
