package bloblease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T28: one process gives rising tokens within a second, whatever its clock shows, and
// although nothing remembers the earlier ones.
func TestTrap_T28_BlobTokensOfOneProcessRiseWithinASecond(t *testing.T) {
	t.Parallel()
	date := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{-time.Hour, -2 * time.Second, 0, time.Second, 2 * time.Second, time.Hour} {
		var mine tokens
		var last int64
		for _, after := range []time.Duration{100, 600, 700, 600, 999} {
			at := mine.instant(date, date.Add(ahead+after*time.Millisecond))
			token := abstractions.NextToken(0, at)
			mine.given(token, date)
			require.Greater(t, token, last, "%v, %v", ahead, after)
			require.Equal(t, date, at.UTC().Truncate(time.Second), "it stays in the service's second")
			last = token
		}
		next := date.Add(time.Second)
		require.Greater(t, abstractions.NextToken(0, mine.instant(next, next.Add(ahead))), last)
	}
}

// A name with a token of the future disturbs nobody else's.
func TestBlobTokensOfTheFutureAreNotTakenDown(t *testing.T) {
	date := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var mine tokens
	mine.given(date.Add(time.Hour).UnixMicro(), date)
	require.Equal(t, date, mine.instant(date, date).UTC())
	mine.given(date.UnixMicro(), date)
	require.Equal(t, date.Add(time.Microsecond), mine.instant(date, date).UTC(), "its own are")
	last := date.Add(time.Second - time.Microsecond)
	mine.given(last.UnixMicro(), date)
	require.Equal(t, date, mine.instant(date, date).UTC(), "there is no room")
	require.Equal(t, date.Add(-time.Second), mine.instant(date.Add(-time.Second), date.Add(-time.Second)).UTC(), "a front end whose clock is behind")
}

// T28: the same against a service whose clock is away from ours.
func TestTrap_T28_BlobForgottenWithinASecondByAClockThatIsOff(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Minute, time.Minute} {
		b := newBed(t)
		b.watch.ages(skew)
		var last int64
		for range 10 {
			g := b.take("n", abstractions.NewID())
			require.Greater(t, g.Token, last)
			last = g.Token
			require.NoError(t, b.Release(t.Context(), endOf(g)))
			_, err := b.admin.NewBlobClient(b.blobName("n")).Delete(t.Context(), nil)
			require.NoError(t, err)
		}
	}
}
