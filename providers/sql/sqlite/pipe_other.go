//go:build !linux

package sqlitelease

import (
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
)

// makePipe is for Linux only: other systems can't wait for a pipe (golang.org/issue/24164), or have
// no named pipes.
func makePipe(string, string, func(string) string) (wakeup.Connection, error) {
	return nil, errors.ErrUnsupported
}

func writePipe(string, string) (alive bool) { return true }
