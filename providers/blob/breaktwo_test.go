package bloblease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T63: one Break of whatever there is ends one lease. The holder gives it up meanwhile,
// and the next one is not hit.
func TestTrap_T63_BlobOneBreakEndsOneLease(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, step := range []verb{write, breakIt, freeLease} {
			if (step == breakIt) == immediate && step != write {
				continue // there is no such step
			}
			b := newBed(t)
			first := b.take("n", "a")
			operator, w := b.process()
			var next abstractions.Grant
			w.just(step, func() {
				require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
				next = b.take("n", "b")
			})
			r, err := operator.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: immediate, Grace: time.Second})
			require.NoError(t, err)
			require.NoError(t, b.extend(next), "before %s", step)
			require.False(t, b.shows("n").Breaking)
			require.Equal(t, abstractions.BreakResult{WasHeld: step != write, Token: first.Token}, r, "before %s", step)
		}
	}
}

// The holder gives its lease up between the two requests, and nobody follows.
func TestBlobBreakOfWhatIsReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.take("n", "a")
	operator, w := b.process()
	w.just(breakIt, func() { b.giveUp("n", "a") })
	r, err := operator.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: g.Token}, r)
	b.take("n", "b")
}
