//go:build !unix

package torture

import (
	"errors"
	"os"
)

var errNoStop = errors.New("only Unix systems stop a process with a signal")

func stopProcess(*os.Process) error     { return errNoStop }
func continueProcess(*os.Process) error { return errNoStop }
