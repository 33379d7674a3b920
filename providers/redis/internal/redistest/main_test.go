package redistest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The names of the tests here avoid the words cluster and sentinel: the table at the end of `make test`
// would count these tests of the harness as tests of the provider in these modes.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// go-redis has a goroutine that ends only a second after Close.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// briefly returns a context that ends before a hung server is resumed.
func briefly(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// timedOut checks that an error comes from a deadline, the context's or the
// connection's.
func timedOut(t testing.TB, err error) {
	t.Helper()
	var netErr net.Error
	require.ErrorAs(t, err, &netErr)
	require.True(t, netErr.Timeout(), err)
}

func set(t testing.TB, client redis.UniversalClient, key, value string) {
	t.Helper()
	require.NoError(t, client.Set(t.Context(), key, value, 0).Err())
}

func get(t testing.TB, client redis.UniversalClient, key string) string {
	t.Helper()
	value, err := client.Get(t.Context(), key).Result()
	require.NoError(t, err)
	return value
}

func absent(t testing.TB, client redis.UniversalClient, key string) {
	t.Helper()
	require.ErrorIs(t, client.Get(t.Context(), key).Err(), redis.Nil)
}
