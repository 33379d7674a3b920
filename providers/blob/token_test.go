package bloblease

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T28: the token rises even if a name is forgotten and acquired again within a second.
func TestTrap_T28_BlobForgottenWithinASecond(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var last int64
	for range 5 {
		g := b.acquire("n", abstractions.NewID())
		require.Greater(t, g.Token, last)
		last = g.Token
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
		_, err := b.admin.NewBlobClient(b.blobName("n")).Delete(t.Context(), nil)
		require.NoError(t, err)
	}
}

// T65: a large token is the same number in every answer.
func TestTrap_T65_BlobLargeTokens(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	metadata, err := encode("", fmt.Appendf(nil, `{"v": 1, "name": "n", "token": %d}`, abstractions.MaxToken-2), nil)
	require.NoError(t, err)
	b.upload("n", "", map[string]string{metadataName: *metadata[metadataName]})
	g := b.acquire("n", "a")
	require.EqualValues(t, abstractions.MaxToken-1, g.Token)
	require.Equal(t, g.Token, b.inspect("n").Token)
	require.NoError(t, b.renew(g))
}

// T28: the token also rises if the service's clock differs from the local clock.
func TestTrap_T28_BlobForgottenWithinASecondByAClockThatIsOff(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Minute, time.Minute} {
		b := newBed(t)
		b.recorder.advanceClock(skew)
		var last int64
		for range 10 {
			g := b.acquire("n", abstractions.NewID())
			require.Greater(t, g.Token, last)
			last = g.Token
			require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
			_, err := b.admin.NewBlobClient(b.blobName("n")).Delete(t.Context(), nil)
			require.NoError(t, err)
		}
	}
}
