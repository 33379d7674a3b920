package recordstest

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// Floor checks that a provider of Records stores, as a floor, the highest token that it has forgotten, and that a name without
// a token gets a token above the floor (T127). No other test may use the provider's data: the check writes a floor that is
// ahead of the clock.
func Floor(t *testing.T, p abstractions.Provider, r *cas.Records) {
	t.Helper()
	ctx := t.Context()
	caps := p.Capabilities()
	ttl := max(caps.MinTTL, 300*time.Millisecond+max(0, caps.Granularity-1)).Truncate(caps.Granularity)
	claim := func(name string) abstractions.AcquireRequest {
		return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "tester", TTL: ttl}
	}
	release := func(name, id string) {
		require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id}))
	}
	first := claim("floor/first")
	forgotten, err := p.Acquire(ctx, first)
	require.NoError(t, err)
	release(first.Name, first.ID)
	r.Retention = time.Millisecond
	servertest.Eventually(t, "the name is forgotten", func(ctx context.Context) error {
		for after := ""; ; {
			_, next, err := r.SweepPage(ctx, after)
			if after = next; err != nil || after == "" {
				break
			}
		}
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: first.Name})
		if err == nil && record.Token != 0 {
			err = context.DeadlineExceeded
		}
		return err
	})
	item, err := r.Store.Get(ctx, r.FloorKey)
	require.NoError(t, err)
	item.Key = r.FloorKey
	require.JSONEq(t, `{"v":1,"floor":`+strconv.FormatInt(forgotten.Token, 10)+`}`, string(item.Data))

	set := func(floor int64) {
		item, err = r.Store.Put(ctx, item, &providerkit.Record{Now: item.Now, Left: abstractions.Infinite}, json.RawMessage(`{"v":1,"floor":`+strconv.FormatInt(floor, 10)+`}`))
		require.NoError(t, err)
	}
	floor := time.Now().Add(8 * time.Hour).UnixMicro()
	set(floor)
	untaken := claim("floor/untaken")
	release(untaken.Name, abstractions.NewID()) // makes a record without a token
	for _, req := range []abstractions.AcquireRequest{claim(first.Name), claim("floor/new"), untaken} {
		grant, err := p.Acquire(ctx, req)
		require.NoError(t, err)
		require.Equal(t, floor+1, grant.Token, req.Name)
		release(req.Name, req.ID)
	}
	if lister, ok := abstractions.As[abstractions.Lister](p); ok {
		page, err := lister.List(ctx, abstractions.ListRequest{})
		require.NoError(t, err)
		for _, record := range page.Records {
			require.Contains(t, record.Name, "floor/")
		}
	}
	set(abstractions.MaxToken)
	_, err = p.Acquire(ctx, claim("floor/late"))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}
