package bloblease

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T16: a renewal that made a lease infinite has lost its reply, and the next one asks
// for an end again: the lease has one then, and does not outlive its holder for ever.
func TestTrap_T16_BlobInfiniteLeaseThatNobodyKnowsOfGetsAnEnd(t *testing.T) {
	t.Parallel()
	for _, halfway := range []bool{false, true} {
		b := newBed(t)
		req := wish("n", "a")
		req.TTL = minTTL
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		b.watch.set(nil, func(v verb, answer *http.Response) (*http.Response, error) {
			if v == takeLease {
				_ = answer.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return answer, nil
		})
		endless := renewal(g)
		endless.TTL = abstractions.Infinite
		_, err = b.Renew(t.Context(), endless)
		require.True(t, isUnknown(err), "%v", err)
		b.watch.heals()
		require.True(t, b.look("n").infinite, "it was applied")
		if halfway { // the record has an end again, and the lease has not
			b.watch.answers(takeLease, http.StatusInternalServerError)
			finite := renewal(g)
			finite.TTL = 20 * time.Second
			_, err = b.Renew(t.Context(), finite)
			require.True(t, isUnknown(err), "%v", err)
			b.watch.heals()
			require.True(t, b.look("n").infinite)
		}
		g, err = b.Renew(t.Context(), renewal(g))
		require.NoError(t, err)
		require.False(t, b.look("n").infinite)
		b.watch.count()
		require.NoError(t, b.extend(g))
		require.Equal(t, []verb{renewLease}, b.watch.count(), "one request from then on")
	}
}
