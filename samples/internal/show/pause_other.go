//go:build !unix

package show

import (
	"errors"
	"os"
)

var errNoPause = errors.New("this sample pauses a process with SIGSTOP, which only Unix systems have")

func pause(*os.Process) error  { return errNoPause }
func resume(*os.Process) error { return errNoPause }
