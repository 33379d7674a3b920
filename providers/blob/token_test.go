package bloblease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestBlobInstantStaysInItsSecond(t *testing.T) {
	date := time.Date(2026, 11, 21, 14, 0, 7, 0, time.UTC)
	for ahead, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, -1: 0, 0: 0, 250 * time.Millisecond: 225 * time.Millisecond,
		time.Second: 900 * time.Millisecond, time.Hour: 900 * time.Millisecond,
	} {
		require.Equal(t, date.Add(want), instant(date, date.Add(ahead)), ahead)
	}
}

// T28: a name is forgotten, and had again, within a second.
func TestTrap_T28_BlobForgottenWithinASecond(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var last int64
	for range 5 {
		g := b.take("n", abstractions.NewID())
		require.Greater(t, g.Token, last)
		last = g.Token
		require.NoError(t, b.Release(t.Context(), endOf(g)))
		_, err := b.admin.NewBlobClient(b.blobName("n")).Delete(t.Context(), nil)
		require.NoError(t, err)
	}
}

// T65: a token is the same number wherever it is shown.
func TestTrap_T65_BlobLargeTokens(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := record{Token: abstractions.MaxToken - 2}
	_, err := b.store.create(t.Context(), "n", r)
	require.NoError(t, err)
	g := b.take("n", "a")
	require.EqualValues(t, abstractions.MaxToken-1, g.Token)
	require.Equal(t, g.Token, b.shows("n").Token)
	require.NoError(t, b.extend(g))
}
