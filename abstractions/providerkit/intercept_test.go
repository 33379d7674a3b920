package providerkit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// abilityOf returns an ability of p.
func abilityOf[T any](t *testing.T, p abstractions.Provider) T {
	ability, ok := abstractions.As[T](p)
	require.True(t, ok)
	return ability
}

// passOn sends each call unchanged.
func passOn(ctx context.Context, x *providerkit.Exchange) (any, error) { return x.Send(ctx, x.Request) }

func TestEachCallIsIntercepted(t *testing.T) {
	ctx := t.Context()
	var mu sync.Mutex
	var calls []providerkit.Method
	p := providerkit.Intercept(memlease.New(memlease.Options{History: 10}), func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		mu.Lock()
		calls = append(calls, x.Method)
		mu.Unlock()
		return x.Send(ctx, x.Request)
	})
	grant, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "a", Owner: "test", TTL: time.Minute})
	require.NoError(t, err)
	renewal := abstractions.RenewRequest{Name: "n", ID: "a", Token: grant.Token, TTL: time.Minute, State: grant.State}
	_, err = p.Renew(ctx, renewal)
	require.NoError(t, err)
	results, err := abilityOf[abstractions.BatchRenewer](t, p).RenewBatch(ctx, []abstractions.RenewRequest{renewal})
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Equal(t, grant.Token, results[0].Grant.Token)
	_, err = abilityOf[abstractions.Waiter](t, p).Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "b"})
	require.NoError(t, err)
	_, err = abilityOf[abstractions.WaiterLister](t, p).Waiters(ctx, abstractions.WaitersRequest{Name: "n"})
	require.NoError(t, err)
	page, err := abilityOf[abstractions.Lister](t, p).List(ctx, abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Records, 1)
	require.NoError(t, abilityOf[abstractions.Pinger](t, p).Ping(ctx))
	history, err := abilityOf[abstractions.HistoryReader](t, p).History(ctx, abstractions.HistoryRequest{Name: "n"})
	require.NoError(t, err)
	require.NotEmpty(t, history.Entries)
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held)
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "a"}))
	require.Equal(t, []providerkit.Method{
		"acquire", "renew", "renew_batch", "wait", "waiters", "list", "ping", "history", "inspect", "break", "release",
	}, slices.Compact(calls))
}

func TestAnInterceptedProviderHasTheAbilitiesOfItsOwn(t *testing.T) {
	bare := struct{ abstractions.Provider }{memlease.New(memlease.Options{})}
	p := providerkit.Intercept(bare, passOn)
	_, batcher := abstractions.As[abstractions.BatchRenewer](p)
	_, waiter := abstractions.As[abstractions.Waiter](p)
	_, waiterLister := abstractions.As[abstractions.WaiterLister](p)
	_, lister := abstractions.As[abstractions.Lister](p)
	_, pinger := abstractions.As[abstractions.Pinger](p)
	_, historian := abstractions.As[abstractions.HistoryReader](p)
	require.False(t, batcher || waiter || waiterLister || lister || pinger || historian)
	_, err := p.RenewBatch(t.Context(), nil)
	var failed *abstractions.Error
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
	require.Equal(t, "renew", failed.Op)
}

// The interceptor changes the request and the reply, repeats a request, drops one, and
// loses a reply.
func TestAnInterceptorDecides(t *testing.T) {
	ctx, mine := t.Context(), errors.New("mine")
	var handle providerkit.Handler
	p := providerkit.Intercept(memlease.New(memlease.Options{}), func(ctx context.Context, x *providerkit.Exchange) (any, error) { return handle(ctx, x) })
	req := abstractions.AcquireRequest{Name: "n", ID: "a", Owner: "test", TTL: time.Minute}
	handle = func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		require.Equal(t, []string{"n", "a"}, []string{x.Name, x.ID})
		req := x.Request.(abstractions.AcquireRequest)
		req.TTL = time.Hour
		first, err := x.Send(ctx, req)
		require.NoError(t, err)
		reply, err := x.Send(ctx, req)
		require.NoError(t, err)
		grant := reply.(abstractions.Grant)
		require.Equal(t, first.(abstractions.Grant).Token, grant.Token)
		grant.State = "changed"
		return grant, nil
	}
	grant, err := p.Acquire(ctx, req)
	require.NoError(t, err)
	require.Equal(t, []any{time.Hour, "changed"}, []any{grant.TTL, grant.State})

	handle = func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		_, err := x.Send(ctx, x.Request)
		require.NoError(t, err)
		return nil, mine
	}
	grant, err = p.Acquire(ctx, req)
	require.ErrorIs(t, err, mine)
	require.Zero(t, grant, "a reply that is lost")
	handle = func(context.Context, *providerkit.Exchange) (any, error) { return nil, mine }
	require.ErrorIs(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "a"}), mine)
	handle = passOn
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held, "the release was not sent")
}

// halfBatcher is a provider whose RenewBatch fails after the first item.
type halfBatcher struct{ abstractions.Provider }

func (halfBatcher) RenewBatch(context.Context, []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return make([]abstractions.RenewResult, 1), abstractions.ErrUnavailable
}

func TestTheRepliesOfAHalfBatchAreKept(t *testing.T) {
	p := providerkit.Intercept(halfBatcher{memlease.New(memlease.Options{})}, passOn)
	results, err := abilityOf[abstractions.BatchRenewer](t, p).RenewBatch(t.Context(), make([]abstractions.RenewRequest, 2))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.Len(t, results, 1)
}

func TestAnIdleInterceptorAllocatesNothing(t *testing.T) {
	idle := true
	p := providerkit.InterceptUnless(freeProvider{}, func(m providerkit.Method) bool { return idle && m != providerkit.MethodPing }, func(context.Context, *providerkit.Exchange) (any, error) {
		return nil, abstractions.ErrDenied
	})
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "a", TTL: time.Minute})
		_, _ = p.List(ctx, abstractions.ListRequest{})
	}))
	require.ErrorIs(t, p.Ping(ctx), abstractions.ErrDenied)
	idle = false
	_, err := p.List(ctx, abstractions.ListRequest{})
	require.ErrorIs(t, err, abstractions.ErrDenied)
}

// freeProvider is a provider whose calls cost nothing.
type freeProvider struct{ abstractions.Provider }

func (freeProvider) Acquire(context.Context, abstractions.AcquireRequest) (grant abstractions.Grant, err error) {
	return grant, nil
}

func (freeProvider) List(context.Context, abstractions.ListRequest) (page abstractions.ListResult, err error) {
	return page, nil
}

func (freeProvider) Ping(context.Context) error { return nil }
