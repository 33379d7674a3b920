//go:build linux

package main

import (
	"os"
	"testing"
)

// The test binary is also the command, its guard, and the commands that it runs.
func TestMain(m *testing.M) {
	if isGuard() {
		guard()
	}
	if len(os.Args) > 1 && os.Args[1] == journalName {
		journalMain(os.Args[2:])
	}
	if os.Getenv("LEASING_TEST_AS_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}
