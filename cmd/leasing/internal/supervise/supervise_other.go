//go:build !unix

package supervise

import (
	"errors"
	"os"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

type signalSet struct{}

func endsLeasing(os.Signal) bool { return true }

// LookPath returns the name: the command is not run.
func LookPath(name string) (string, error) { return name, nil }

// Catch does nothing.
func (s *Signals) Catch() {}

// IsGuard returns false.
func IsGuard() bool { return false }

// Guard does nothing.
func Guard() {}

// Check returns the reason why no command can be run here.
func Check() error { return errors.New("run and elect need a Unix system") }

// Run fails: there are no process groups with which to end a command and its descendants.
func (c *Command) Run(*leasing.Lease, []string) (int, error) { return exit.Failed, Check() }
