package cosmoslease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// T21: a name that is deleted and claimed again within a second gets a greater token:
// in the same process with any clock, and in another process with an equal clock.
func TestTrap_T21_TokensRiseThroughADeletionWithinASecond(t *testing.T) {
	for name, delete := range map[string]func(b *bed){
		"document": func(b *bed) {
			item, err := b.driver.store.Get(b.t.Context(), "n")
			require.NoError(b.t, err)
			require.NoError(b.t, b.driver.store.Delete(b.t.Context(), item))
		},
		"container": func(b *bed) { b.account.DropContainer(testDatabase, testContainer) },
	} {
		for skew, another := range map[time.Duration]bool{0: true, 14 * time.Minute: false, -14 * time.Minute: false} {
			t.Run(name+skew.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					create := func(o *Options) { o.Create = true }
					now := func() time.Time { return time.Now().Add(skew) }
					b := newBed(t, cosmostest.Options{Now: now}, create)
					for _, id := range []string{"a1", "a2", "a3"} {
						b.release(b.acquire("n", id))
					}
					g := b.acquire("n", "a")
					next := b.Provider
					if another {
						next = b.process(create)
						time.Sleep(time.Millisecond)
					}
					delete(b)
					taken, err := next.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
					require.NoError(t, err)
					require.Greater(t, taken.Token, g.Token)
					_, err = b.renew(g)
					requireLost(t, abstractions.LostTaken, err)
				})
			})
		}
	}
}

// A document whose token is lower than the grant's may be an earlier version, or a new
// document after a deletion. A renewal reports a loss in the second case.
func TestALeaseWhoseDocumentWasDeletedIsLost(t *testing.T) {
	for name, follow := range map[string]func(b *bed){
		"nobody":         func(*bed) {},
		"an earlier one": func(b *bed) { b.acquire("n", "b") },
		"one that ended": func(b *bed) { b.release(b.acquire("n", "b")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				g := b.acquire("n", "a")
				g.Token += time.Hour.Microseconds() // the token of a clock that was ahead
				b.account.AddContainer(testDatabase, testContainer, "/id")
				_, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"}) // the session is gone
				requireUnknown(t, err)
				follow(b)
				_, err = b.renew(g)
				requireLost(t, abstractions.LostGone, err)
			})
		})
	}
}
