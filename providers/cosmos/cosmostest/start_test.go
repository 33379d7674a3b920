package cosmostest_test

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// A started account has its own key, and the provider accepts its URL, or its
// address and key.
func TestStart(t *testing.T) {
	one, other := cosmostest.Start(t), cosmostest.Start(t)
	for _, options := range []cosmoslease.Options{
		{URL: one.URL},
		{Endpoint: one.Endpoint, Key: one.Key, Database: "app", Container: "leases"},
	} {
		p, err := cosmoslease.Open(t.Context(), options)
		require.NoError(t, err)
		id := abstractions.NewID()
		_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: id, ID: id, Owner: "o", TTL: time.Minute})
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	p, err := cosmoslease.Open(t.Context(), cosmoslease.Options{Endpoint: one.Endpoint, Key: other.Key, Database: "app", Container: "leases"})
	require.NoError(t, err)
	require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied)
	require.NoError(t, p.Close())
}
