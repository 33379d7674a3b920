package mysqllease

import (
	"math"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T127, in halves, since the test can't set the server's clock: a sweep keeps the highest token that it deletes, and the first tokens of
// names are above the floor.
func TestTrap_T127_TheFloorIsKeptAndHeeded_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t, "retention=1h")
	for _, name := range []string{"a", "b"} {
		grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
		b.exec(t, "UPDATE lease SET version = version - 7200000000")
		n, err := p.Sweep(bounded(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		db := b.connect(t)
		defer db.Close()
		var floor int64
		require.NoError(t, db.QueryRowContext(bounded(t), "SELECT token FROM lease WHERE name = ''").Scan(&floor))
		require.Equal(t, grant.Token, floor)
	}
	floor := time.Now().Add(8 * time.Hour).UnixMicro()
	b.exec(t, "UPDATE lease SET token = ? WHERE name = ''", floor)
	require.NoError(t, p.Release(bounded(t), abstractions.ReleaseRequest{Name: "untaken", ID: abstractions.NewID()})) // makes a row without a token
	for _, name := range []string{"a", "new", "untaken"} {
		grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		require.Equal(t, floor+1, grant.Token, name)
	}
	list, err := p.List(bounded(t), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, list.Records, 3)
	b.exec(t, "UPDATE lease SET token = ? WHERE name = ''", int64(abstractions.MaxToken))
	_, err = p.Acquire(bounded(t), claimOf("late", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

// T128: no token follows the last, although an operator has written it by hand.
func TestTrap_T128_NoTokenFollowsTheLast_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t)
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	b.exec(t, "UPDATE lease SET token = ?, version = version + 1", int64(abstractions.MaxToken-1))
	grant, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.EqualValues(t, abstractions.MaxToken, grant.Token)
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	for _, token := range []int64{abstractions.MaxToken, abstractions.MaxToken + 1, math.MaxInt64} {
		b.exec(t, "UPDATE lease SET token = ?, version = version + 1", token)
		_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.True(t, abstractions.NotApplied(err))
	}
}
