package credentialtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// everyCall returns the calls of a provider that send requests. They use the name of a grant, except acquire,
// which uses a new name.
func everyCall(p abstractions.Provider, g abstractions.Grant) map[string]func(context.Context) error {
	calls := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: abstractions.NewID(), ID: abstractions.NewID(), Owner: "test", TTL: g.TTL})
			return err
		},
		"renew": func(ctx context.Context) error { _, err := renew(ctx, p, g); return err },
		"release": func(ctx context.Context) error {
			return p.Release(ctx, abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State})
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: g.Name})
			return err
		},
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: g.Name, Immediate: true})
			return err
		},
	}
	if lister, ok := p.(abstractions.Lister); ok {
		calls["list"] = func(ctx context.Context) error { _, err := lister.List(ctx, abstractions.ListRequest{}); return err }
	}
	if pinger, ok := p.(abstractions.Pinger); ok {
		calls["ping"] = pinger.Ping
	}
	if batch, ok := p.(abstractions.BatchRenewer); ok {
		calls["batch"] = func(ctx context.Context) error {
			results, err := batch.RenewBatch(ctx, []abstractions.RenewRequest{renewalOf(g)})
			switch {
			case errors.Is(err, abstractions.ErrUnsupported):
				_, err = renew(ctx, p, g)
			case err == nil && len(results) != 1:
				err = fmt.Errorf("%d results of a batch of one", len(results))
			case err == nil:
				err = results[0].Err
			}
			return err
		}
	}
	return calls
}

func renewalOf(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func renew(ctx context.Context, p abstractions.Provider, g abstractions.Grant) (abstractions.Grant, error) {
	return p.Renew(ctx, renewalOf(g))
}

// ApplicationPanics (T124) makes the application's code panic during each call of a provider. open makes a provider with
// application code that calls maybe() for each request; maybe() panics during parts of the test. The call fails with an error
// that names the panic, and a held lease is kept.
func ApplicationPanics(t *testing.T, ttl time.Duration, open func(t testing.TB, maybe func()) abstractions.Provider) {
	t.Helper()
	var broken atomic.Bool
	p := open(t, func() {
		if broken.Load() {
			panic("of the application")
		}
	})
	g, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: abstractions.NewID(), ID: abstractions.NewID(), Owner: "test", TTL: ttl})
	require.NoError(t, err)
	broken.Store(true)
	for range 2 {
		for verb, call := range everyCall(p, g) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := call(ctx)
			require.NoError(t, ctx.Err(), verb)
			cancel()
			require.ErrorIs(t, err, abstractions.ErrUnavailable, verb)
			require.ErrorContains(t, err, "of the application", verb)
		}
	}
	broken.Store(false)
	g, err = renew(t.Context(), p, g)
	require.NoError(t, err)
	require.NoError(t, everyCall(p, g)["release"](t.Context()))
}
