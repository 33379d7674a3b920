//go:build !unix

package azuritetest

import (
	"errors"
	"os"
)

var errNoPause = errors.New("processes can't be paused on this system")

func pause(*os.Process) error { return errNoPause }

func resume(*os.Process) error { return errNoPause }
