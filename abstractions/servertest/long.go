package servertest

import (
	"os"
	"testing"
)

// Long skips a test under -short, which `make test` passes. It is for a test that takes a long time
// and finds little that similar tests do not find. `make test-all` runs the test.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs this test")
	}
}

// Thorough skips a test that takes more than ten seconds, unless scripts/with-servers runs it: a plain `go
// test ./...` skips the test. `make test` runs the test.
func Thorough(t testing.TB) {
	t.Helper()
	if os.Getenv(required) == "" {
		t.Skip("make test runs this test; or set " + required)
	}
}
