package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/open"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// TestTorture_memory is the layer "torture": two minutes of virtual time over memory under
// each ready-made plan; once with the defaults, once busier, and once with longer leases
// and without wake-ups and batches. A mutant that breaks a promise should fail this test.
func TestTorture_memory(t *testing.T) {
	servertest.Long(t)
	for _, name := range chaos.Names() {
		for _, v := range []struct {
			ttl       time.Duration
			intensity float64
			bare      bool
		}{{2 * time.Second, 1, false}, {2 * time.Second, 5, false}, {10 * time.Second, 1, true}} {
			t.Run(fmt.Sprint(name, " ", v.ttl, " ", v.intensity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plan, err := chaos.Named(name, 1)
					require.NoError(t, err)
					var provider leasing.Provider = memlease.New(memlease.Options{})
					if v.bare {
						provider = plainProvider{provider}
					}
					report, err := torture.Run(context.Background(), torture.Options{
						Open: torture.Share(provider),
						Plan: plan, Seed: 1, For: 2 * time.Minute, TTL: v.ttl, Intensity: v.intensity, MaxSearchSteps: 2_000_000,
					})
					require.NoError(t, err)
					require.Empty(t, report.Violations, "%s", report)
				})
			})
		}
	}
}

// TestTortureOfAServer is the layer "torture" for drawn mutants: `leasing-dev torture --for 15s` over a real server.
// Patience is longer than the command's default, for a busy machine.
func TestTortureOfAServer(t *testing.T) {
	servertest.Long(t)
	for _, server := range []string{"redis", "postgres", "sqlite", "etcd"} {
		t.Run(server, func(t *testing.T) {
			url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db"))
			if server != "sqlite" {
				url = servertest.Require(t, "LEASING_TEST_"+strings.ToUpper(server))
			}
			if strings.Contains(url, "postgres") || server == "sqlite" {
				url += map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + "create=true"
			}
			plan, err := chaos.Named("flaky-network", 1)
			require.NoError(t, err)
			report, err := torture.Run(t.Context(), torture.Options{
				Open: func(ctx context.Context) (leasing.Provider, error) {
					return open.URL(ctx, url, redislease.Opener(), postgreslease.Opener(), sqlitelease.Opener(), etcdlease.Opener())
				},
				Plan: plan, Seed: 1, For: 15 * time.Second, Patience: 15 * time.Second,
			})
			require.NoError(t, err)
			require.Empty(t, report.Violations, "%s", report)
			require.Positive(t, report.Grants)
		})
	}
}

// plainProvider is a provider without abilities: managers poll, and renew one lease at a time.
type plainProvider struct{ leasing.Provider }

func (plainProvider) As(any) bool { return false }
