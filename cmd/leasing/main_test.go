//go:build linux

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// The test binary is also the command, its guard, and the commands that it runs.
func TestMain(m *testing.M) {
	if supervise.IsGuard() {
		supervise.Guard()
	}
	if len(os.Args) > 1 && os.Args[1] == journalName {
		journalMain(os.Args[2:])
	}
	if len(os.Args) > 1 && os.Args[1] == idleName {
		idleMain(os.Args[2:])
	}
	if os.Getenv("LEASING_TEST_AS_COMMAND") != "" {
		main()
	}
	_, _ = os.Unsetenv("LEASING_URL"), os.Unsetenv("LEASING_CONFIG") // settings of the user who runs the tests
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)           // under nohup the commands that tests start would ignore HUP, too
	os.Exit(m.Run())
}
