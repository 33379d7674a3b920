//go:build !unix

package redistest

import (
	"errors"
	"os"
)

func terminate(*os.Process) error { return errors.ErrUnsupported }

func pause(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
