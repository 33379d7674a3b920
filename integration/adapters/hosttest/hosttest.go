// Package hosttest opens managers for the tests of host projects: see TestOwnSuites.
package hosttest

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// URL is the environment variable with the URL of the backend.
const URL = "LEASING_TEST_HOST_URL"

// Acquired is the prefix of the line that is printed for each acquired lease.
const Acquired = "hosttest: acquired"

var provider = sync.OnceValues(func() (abstractions.Provider, error) {
	return open.URL(context.Background(), os.Getenv(URL), memlease.Opener(), redislease.Opener())
})

// NewManager returns another manager over the process's one provider. The manager is
// never closed.
func NewManager() *leasing.Manager {
	p, err := provider()
	if err != nil {
		panic(err)
	}
	m, err := leasing.NewManager(p, leasing.Options{})
	if err != nil {
		panic(err)
	}
	m.Subscribe(func(e leasing.Event) {
		if e.Kind == leasing.EventAcquired {
			fmt.Printf("\n%s %s\n", Acquired, e.Name)
		}
	})
	return m
}
