package netfault

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// The driver takes up to 15 s for the orderly close of a connection, which can't succeed on a dead
// connection. A process without another connection could not renew its leases in that time.
func TestDeadConnectionGivesItsPlaceBack_postgres(t *testing.T) {
	b := newBed(t, backends[slices.IndexFunc(backends, func(b backend) bool { return b.name == "postgres" })])
	client := b.provider(b.behind + "&pool_max_conns=1")
	b.warmUp(client)
	for range 2 {
		id := abstractions.NewID()
		b.proxy.HalfOpen()
		_, err := b.acquire(client, id, 300*time.Millisecond)
		require.Error(t, err)
		grant, err := b.acquire(client, id, 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, client.Release(t.Context(), abstractions.ReleaseRequest{Name: b.name, ID: id, Token: grant.Token}))
	}
}
