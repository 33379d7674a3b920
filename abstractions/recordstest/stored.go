package recordstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// StoredRecord is a lease as cas.Records of release 0.1.0 stored it; the testdata of package cas has the same line.
// The lease is held for half a minute.
const (
	StoredName   = "jobs/daily"
	StoredID     = "0123456789abcdef"
	StoredRecord = `{"v":1,"name":"jobs/daily","token":1789000000123456,"id":"0123456789abcdef","owner":"host-1","metadata":{"\u003c\u0026\u003e":"ü🔒","region":"north"},"ended":"broken!@1789000000 released@1789000000","ttl_us":30000000,"acquired_us":1789000000123456,"idle_us":1789000000123456,"write":"1f2e3d4c5b6a7988","lasts_us":30000000}`
)

// UsesStored checks that a provider reads StoredRecord and continues its lease. put writes the record, without the
// provider, to the place that release 0.1.0 used.
func UsesStored(t *testing.T, p abstractions.Provider, put func()) {
	t.Helper()
	ctx := t.Context()
	put()
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: StoredName})
	require.NoError(t, err)
	require.True(t, record.Held, "%+v", record)
	require.EqualValues(t, 1789000000123456, record.Token)
	require.Equal(t, "host-1", record.Owner)
	require.Equal(t, map[string]string{"<&>": "ü🔒", "region": "north"}, record.Metadata)
	next := abstractions.AcquireRequest{Name: StoredName, ID: abstractions.NewID(), Owner: "tester", TTL: time.Minute}
	_, err = p.Acquire(ctx, next)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	grant, err := p.Renew(ctx, abstractions.RenewRequest{Name: StoredName, ID: StoredID, Token: record.Token, TTL: 30 * time.Second})
	require.NoError(t, err)
	require.Equal(t, record.Token, grant.Token)
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: StoredName, ID: StoredID, Token: record.Token, State: grant.State}))
	grant, err = p.Acquire(ctx, next)
	require.NoError(t, err)
	require.Greater(t, grant.Token, record.Token)
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: StoredName, ID: next.ID, Token: grant.Token, State: grant.State}))
}
