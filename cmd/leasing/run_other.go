//go:build !unix

package main

import (
	"errors"
	"os"

	"github.com/distributedleasing/leasing"
)

var forwarded []os.Signal

func ends(os.Signal) bool { return true }

func roomForSqlite() error { return nil }

func lookPath(name string) (string, error) { return name, nil }

type signalSet uint64

func (w *work) catchSignals() {}
func isGuard() bool           { return false }
func guard()                  {}

func canSupervise() error { return errors.New("run and elect need a Unix system") }

// under: there are no process groups to end a command with all that it has started.
func (w *work) under(*leasing.Lease) (int, error) {
	return exitFailed, canSupervise()
}
