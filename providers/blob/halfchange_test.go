package bloblease

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// T15: a renewal for longer has come as far as the record. The next one does not take
// the record's word for the lease: it sets the duration.
func TestTrap_T15_BlobHalfAChangeOfTheDurationIsFinished(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := wish("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	longer := renewal(g)
	longer.TTL = maxTTL
	b.watch.answers(takeLease, http.StatusInternalServerError)
	_, err = b.Renew(t.Context(), longer)
	require.True(t, isUnknown(err), "%v", err)
	b.watch.heals()
	require.Equal(t, seconds(maxTTL), b.look("n").record.Seconds)
	b.watch.count()
	_, err = b.Renew(t.Context(), longer)
	require.NoError(t, err)
	require.Equal(t, []verb{look, takeLease}, b.watch.count())
}
