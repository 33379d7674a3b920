package bloblease

import (
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T20: a lease is broken in the portal or with az. No renewal of its holder brings it
// back, whatever its TTL, and whenever it comes.
func TestTrap_T20_BlobBrokenOutsideIsNotRevived(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
		for _, period := range []int32{0, 60} {
			for _, step := range []verb{"", renewLease, look} {
				b := newBed(t)
				req := wish("n", abstractions.NewID())
				req.TTL = ttl
				g, err := b.Acquire(t.Context(), req)
				require.NoError(t, err)
				stateless := renewal(g)
				if step == "" {
					b.portalBreaks("n", period)
				} else {
					b.watch.just(step, func() { b.portalBreaks("n", period) })
				}
				if step == look {
					stateless.State = nil
				}
				_, err = b.Renew(t.Context(), stateless)
				b.watch.heals()
				requireLost(t, err, abstractions.LostBroken)
				require.True(t, b.look("n").isBroken())
			}
		}
	}
}

// Between the look of a renewal and its own request.
func TestTrap_T20_BlobBrokenOutsideBehindTheLook(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeEndless("n", "a")
	b.giveUp("n", "never") // the record changes, the claim does not
	looked := false
	b.watch.set(nil, func(v verb, answer *http.Response) (*http.Response, error) {
		if v == look && !looked {
			looked = true
			b.portalBreaks("n", 0)
		}
		return answer, nil
	})
	err := b.extend(g)
	b.watch.heals()
	require.True(t, looked)
	requireLost(t, err, abstractions.LostBroken)
}
