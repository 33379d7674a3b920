package azuritetest

import (
	"os"
	"sync"
	"testing"
)

// shared is one server for all tests of a process.
var shared struct {
	sync.Mutex
	server *Server
	dir    string
}

// Shared is the connection string of a server that all tests use which do it no
// harm: the one that LEASING_TEST_AZURITE names, or else one that is started for
// the first of them. The tests' process ends it with StopShared.
func Shared(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("LEASING_TEST_AZURITE"); named != "" {
		return named
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "azuritetest") //nolint:usetesting // it outlives the test
		if err == nil {
			shared.dir = dir
			shared.server, err = newServer(dir, Options{})
		}
		if err != nil {
			t.Fatalf("a test server did not start: %v", err)
		}
	}
	return shared.server.ConnectionString()
}

// StopShared ends the server that Shared has started, if any.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.Kill()
		shared.server = nil
	}
	_ = os.RemoveAll(shared.dir)
}
