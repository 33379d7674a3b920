package servertest

import "testing"

// Long skips a test under -short, which `make test` passes: the test takes long and finds little
// beside its siblings. `make test-all` runs the test.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs this test")
	}
}
