package credentialtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// OutlivesRotation checks that a lease of p is renewed after rotate has replaced the files of p and the
// server no longer accepts the old ones.
func OutlivesRotation(t testing.TB, p abstractions.Provider, rotate func()) {
	t.Helper()
	ctx, ttl := t.Context(), min(2*time.Minute, p.Capabilities().MaxTTL)
	g, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: "rotation/" + abstractions.NewID(), ID: abstractions.NewID(), Owner: "test", TTL: ttl})
	require.NoError(t, err)
	rotate()
	servertest.Eventually(t, "the lease is renewed", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		renewed, err := p.Renew(ctx, abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: ttl, State: g.State})
		if err == nil && renewed.Token != g.Token {
			err = fmt.Errorf("token %d, not %d", renewed.Token, g.Token)
		}
		if err == nil {
			g.State = renewed.State
		}
		return err
	})
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}))
}

// OutlivesNewAuthority is OutlivesRotation for the TLS files of the provider that open makes. The
// provider connects to a TLS front, which forwards to server without TLS. protocol is as in
// servertest.NewFront.
func OutlivesNewAuthority(t testing.TB, server, protocol string, open func(addr string, files servertest.Pair) abstractions.Provider) {
	t.Helper()
	first, err := servertest.NewAuthority()
	require.NoError(t, err)
	second, err := servertest.NewAuthority()
	require.NoError(t, err)
	files, err := servertest.NewPair(t.TempDir(), "client", first, first)
	require.NoError(t, err)
	front := servertest.NewFront(t, server, protocol, first)
	OutlivesRotation(t, open(front.Addr(), files), func() {
		require.NoError(t, files.Replace("client", second, second))
		front.Replace(second)
	})
}
