package redislease

import (
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
)

// T124: a hook or credentials that panic must not end the process.
func TestTrap_T124_CodeOfTheApplicationPanics(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	var broken atomic.Bool
	maybe := func() {
		if broken.Load() {
			panic("of the application")
		}
	}
	fails := func(t *testing.T, p *Provider) {
		broken.Store(true)
		for name, call := range everyCall(p) {
			err := call(t.Context())
			require.ErrorIs(t, err, abstractions.ErrUnavailable, name)
			require.ErrorContains(t, err, "of the application", name)
		}
		broken.Store(false)
		requireWorking(t, p)
	}
	t.Run("a hook", func(t *testing.T) {
		for _, timeoutEnabled := range []bool{false, true} {
			client := closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1}))
			client.AddHook(redistest.Around((&recorder{before: func([]redis.Cmder) { maybe() }}).around))
			p := openTest(t, Options{Client: client, HeedsContext: timeoutEnabled})
			requireWorking(t, p)
			broken.Store(true)
			calls := everyCall(p)
			delete(calls, "wait") // a subscription has no hook
			for name, call := range calls {
				err := call(t.Context())
				require.ErrorIs(t, err, abstractions.ErrUnavailable, name)
				require.ErrorContains(t, err, "of the application", name)
			}
			broken.Store(false)
			requireWorking(t, p)
		}
	})
	t.Run("credentials", func(t *testing.T) {
		fails(t, openTest(t, Options{URL: server.URL(), Credentials: panicking{maybe}}))
	})
}

// panicking are credentials that may panic, for a server that needs no credentials.
type panicking struct{ maybe func() }

func (p panicking) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.maybe()
	return auth.NewBasicCredentials("default", ""), func() error { return nil }, nil
}
