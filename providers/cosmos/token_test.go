package cosmoslease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestTokensOfOneProcessRiseWithinTheServicesSecond(t *testing.T) {
	date := time.Date(2025, 11, 24, 16, 0, 0, 0, time.UTC)
	for name, local := range map[string]time.Time{
		"the same": date, "behind": date.Add(-time.Hour), "ahead": date.Add(time.Hour), "within": date.Add(999_999 * time.Microsecond),
	} {
		var given tokens
		var last int64
		for range 1000 {
			token := given.next(0, date, local)
			require.Greater(t, token, last, name)
			require.Less(t, token, date.Add(2*time.Second).UnixMicro(), name)
			require.GreaterOrEqual(t, token, date.UnixMicro(), name)
			last = token
		}
	}
}

func TestATokenIsGreaterThanTheStoredOne(t *testing.T) {
	date := time.Date(2025, 11, 24, 16, 0, 0, 0, time.UTC)
	var given tokens
	require.Equal(t, date.UnixMicro()+250_000, given.next(7, date, date.Add(250*time.Millisecond)), "the part of the second is ours")
	future := date.Add(time.Hour).UnixMicro()
	require.Equal(t, future+1, given.next(future, date, date))
	require.Equal(t, date.UnixMicro()+250_001, given.next(0, date, date), "one of the future says nothing of other names")
	next := date.Add(time.Minute)
	require.Equal(t, next.UnixMicro(), given.next(0, next, next))
}

// T21: what was deleted and claimed again within a second has a later token, by the
// same process whatever its clock shows, by another whose clock agrees.
func TestTrap_T21_TokensRiseThroughADeletionWithinASecond(t *testing.T) {
	for name, delete := range map[string]func(b *bed){
		"document": func(b *bed) {
			items := b.connection.found.Load()
			s, err := items.read(b.t.Context(), "n")
			require.NoError(b.t, err)
			_, err = items.remove(b.t.Context(), s.id, s.etag)
			require.NoError(b.t, err)
		},
		"container": func(b *bed) { b.account.DropContainer(testDatabase, testContainer) },
	} {
		for skew, another := range map[time.Duration]bool{0: true, 14 * time.Minute: false, -14 * time.Minute: false} {
			t.Run(name+skew.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					create := func(o *Options) { o.Create = true }
					now := func() time.Time { return time.Now().Add(skew) }
					b := newBed(t, fake.Options{Now: now}, create)
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
					taken, err := next.Acquire(t.Context(), wish("n", "b", time.Minute))
					require.NoError(t, err)
					require.Greater(t, taken.Token, g.Token)
					_, err = b.renew(g)
					requireLost(t, abstractions.LostTaken, err)
				})
			})
		}
	}
}

// A document with an earlier token than mine is one of a time before, or one that
// was made after mine was deleted: in the end that is told apart.
func TestALeaseWhoseDocumentWasDeletedIsLost(t *testing.T) {
	for name, follow := range map[string]func(b *bed){
		"nobody":         func(*bed) {},
		"an earlier one": func(b *bed) { b.acquire("n", "b") },
		"one that ended": func(b *bed) { b.release(b.acquire("n", "b")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				g := b.acquire("n", "a")
				g.Token += time.Hour.Microseconds() // of a clock that was ahead
				b.account.AddContainer(testDatabase, testContainer, "/id")
				_, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"}) // what the session has seen is gone
				requireUnknown(t, err)
				follow(b)
				_, err = b.renew(g)
				reason := abstractions.LostGone
				if name == "an earlier one" {
					reason = abstractions.LostTaken
				}
				requireLost(t, reason, err)
			})
		})
	}
}
