//go:build !unix

package main

import (
	"errors"
	"os"

	"github.com/distributedleasing/leasing"
)

var forwarded []os.Signal

func ends(os.Signal) bool { return true }
func isGuard() bool       { return false }
func guard()              {}

// under: there are no process groups to end a command with all that it has started.
func (w *work) under(leasing.Lease) (int, error) {
	return exitFailed, errors.New("run and elect need a Unix system")
}
