package redislease

import (
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

func clusterURL(c *redistest.Cluster) string {
	return "redis://" + strings.Join(c.Addrs(), ",") + "?mode=cluster"
}

func keysOf(name string) script.Keys { return script.Naming{Prefix: DefaultPrefix}.Keys(name) }

func second[T any](_ T, err error) error { return err }

func openTest(t testing.TB, o Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}
