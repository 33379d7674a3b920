package redislease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// endings are the ways to end a lease.
var endings = map[string]func(b *bed, g abstractions.Grant){
	"release": func(b *bed, g abstractions.Grant) { b.release(g.Name, g.ID) },
	"expiry":  func(b *bed, g abstractions.Grant) { b.waitForExpiry(g.Name) },
	"break":   func(b *bed, g abstractions.Grant) { b.breakNow(g.Name) },
	"break, deferred": func(b *bed, g abstractions.Grant) {
		_, err := b.Break(b.t.Context(), abstractions.BreakRequest{Name: g.Name})
		require.NoError(b.t, err)
		b.waitForExpiry(g.Name)
	},
	"flush": func(b *bed, _ abstractions.Grant) { require.NoError(b.t, b.admin.FlushAll(b.t.Context()).Err()) },
	"deletion of the key": func(b *bed, g abstractions.Grant) {
		b.forget(g.Name)
		b.release(g.Name, g.ID)
	},
	"restart": func(b *bed, _ abstractions.Grant) { b.server.Restart() },
}

func TestTrap_T21_TokensRiseWhateverEndsALease(t *testing.T) {
	t.Parallel()
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, redistest.Options{})
			last := int64(0)
			for n := range 3 {
				g := b.Take("n", fmt.Sprint("id", n), 150*time.Millisecond)
				require.Greater(t, g.Token, last)
				require.LessOrEqual(t, g.Token, b.clock())
				last = g.Token
				end(b, g)
			}
		})
	}
}

func TestTrap_T22_ARenewalAndARepetitionKeepTheToken(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	for range 3 {
		require.NoError(t, b.renew(g, time.Minute))
		require.Equal(t, g, b.Take("n", "a", time.Minute))
	}
	r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, g.Token, r.Token)
}

// A clock that was ahead, for example on a master that failed, leaves a token in the future.
func TestTrap_T54_ATokenInTheFutureIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	ahead := 10 * time.Hour
	future := b.clock() + ahead.Microseconds()
	b.put("n", redistest.Free(future, "old"))
	keptLong := func(after string) {
		t.Helper()
		require.Greater(t, b.left(k.Name), ahead, "%s: forgotten while its token is in the future, it would be handed out again", after)
	}

	g := b.Take("n", "a", time.Minute)
	require.Equal(t, future+1, g.Token)
	keptLong("acquire")
	b.Take("n", "a", 2*time.Minute)
	keptLong("a repetition")
	require.NoError(t, b.renew(g, time.Hour))
	keptLong("renewal")
	b.admin.Persist(t.Context(), k.Name)
	require.NoError(t, b.renew(g, time.Hour))
	require.Positive(t, b.left(k.Name), "not for ever")
	keptLong("renewal of what was kept for ever")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	keptLong("a break")
	b.release("n", "a")
	keptLong("release")
	b.release("n", "never")
	keptLong("release of a stranger")

	require.Equal(t, future+2, b.Take("n", "b", time.Minute).Token)
	require.Equal(t, future+2, b.breakNow("n").Token)
	keptLong("an immediate break")
	require.Equal(t, future+3, b.Take("n", "c", time.Minute).Token)
}

func TestTrap_T65_TokensKeepAllTheirDigits(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.put("n", redistest.Free(abstractions.MaxToken-1))
	g := b.Take("n", "a", time.Minute)
	require.EqualValues(t, abstractions.MaxToken, g.Token)
	for what, look := range map[string]func() (int64, error){
		"a repetition": func() (int64, error) { g, err := b.Try("n", "a", time.Minute); return g.Token, err },
		"inspection": func() (int64, error) {
			r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			return r.Token, err
		},
		"a break": func() (int64, error) {
			r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: abstractions.MaxToken})
			return r.Token, err
		},
	} {
		if what == "a repetition" {
			require.NoError(t, b.renew(g, time.Minute))
		}
		if what == "a break" {
			continue // comes last, below
		}
		token, err := look()
		require.NoError(t, err, what)
		require.EqualValues(t, abstractions.MaxToken, token, what)
	}
	_, err := b.Try("n", "b", time.Minute)
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	require.EqualValues(t, abstractions.MaxToken, held.Holder.Token)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: abstractions.MaxToken - 1})
	require.ErrorIs(t, err, abstractions.ErrStale)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: abstractions.MaxToken, Immediate: true})
	require.NoError(t, err)
	require.EqualValues(t, abstractions.MaxToken, r.Token)
	record, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.EqualValues(t, abstractions.MaxToken, record.Token, "of a free name")

	before := b.stored("n")
	_, err = b.Try("n", "c", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp, "there is no token after the last")
	require.Equal(t, before, b.stored("n"))
}

func TestTrap_T56_EndedIDsAreRemembered(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	refused := func(id string) {
		t.Helper()
		_, err := b.Try("n", id, time.Minute)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		require.False(t, b.stored("n").Held())
	}
	b.release("n", "never-held")
	refused("never-held")
	b.Take("n", "held", time.Minute)
	b.release("n", "held")
	refused("held")
	refused("never-held")
	b.Take("n", "broken", time.Minute)
	b.breakNow("n")
	refused("broken")
	b.release("n", "broken") // by its holder, which has not noticed the break
	refused("broken")
	b.Take("n", "expired", 100*time.Millisecond)
	b.waitForExpiry("n")
	b.release("n", "expired")
	refused("expired")

	g := b.Take("n", "present", time.Minute)
	b.release("n", "late")
	require.NoError(t, b.renew(g, time.Minute), "a stranger's release disturbs nobody")
	b.release("n", "present")
	refused("late")
}

func TestTheLastEightAreRemembered(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	for _, length := range []int{1, 5, 36, 64} {
		name := fmt.Sprint("length/", length)
		var all []string
		for n := range 20 {
			id := strings.Repeat(string(rune('a'+n)), length)
			all = append(all, id)
			if n%2 == 0 {
				b.Take(name, id, time.Minute)
				b.breakNow(name)
			} else {
				b.release(name, id)
			}
		}
		for _, id := range all[len(all)-8:] {
			_, err := b.Try(name, id, time.Minute)
			require.ErrorIs(t, err, abstractions.ErrReleased, "%s of %d", id, length)
		}
		require.LessOrEqual(t, len(strings.Fields(b.stored(name).Ended)), 8, "and no more")
	}
	var all []string
	for range 20 {
		all = append(all, abstractions.NewID())
		b.Take("all released", all[len(all)-1], time.Minute)
		b.release("all released", all[len(all)-1])
	}
	slices.Reverse(all)
	for i, id := range all[:8] {
		all[i] = redistest.Digest(id)
	}
	require.Equal(t, all[:8], strings.Fields(b.stored("all released").Ended))
	words := strings.Fields(b.stored("length/36").Ended)
	require.Equal(t, redistest.Digest(strings.Repeat("t", 36)), words[0], "the latest first")
	require.Equal(t, redistest.Digest(strings.Repeat("s", 36))+"!", words[1], "broken")
}

func TestTheReleaseOfABrokenLeaseIsRememberedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "before", time.Minute)
	b.release("n", "before")
	b.Take("n", "x", time.Minute)
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Grace: time.Minute})
	require.NoError(t, err)
	b.release("n", "x")
	b.Take("n", "y", time.Minute)
	require.Equal(t, []string{redistest.Digest("x") + "!", redistest.Digest("before")}, strings.Fields(b.stored("n").Ended))
}

func TestIDsThatBeginAlikeAreDifferent(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	ids := []string{"a", "a-", "aa", "aaa", "a-a", "A"}
	for _, ended := range ids {
		name := "n/" + ended
		b.release(name, ended)
		for _, id := range ids {
			g, err := b.Try(name, id, time.Minute)
			if id == ended {
				require.ErrorIs(t, err, abstractions.ErrReleased)
				continue
			}
			require.NoError(t, err, "%s after %s", id, ended)
			for _, other := range ids {
				if other == id {
					continue
				}
				_, err = b.Renew(t.Context(), abstractions.RenewRequest{Name: name, ID: other, Token: g.Token, TTL: time.Minute})
				require.ErrorIs(t, err, abstractions.ErrLost, other)
				_, err = b.Try(name, other, time.Minute)
				if other != ended {
					require.ErrorIs(t, err, abstractions.ErrHeld, other)
				}
			}
			redistest.DropLease(t, b.admin, b.keys(name).Name)
		}
	}
}

func TestTrap_T25_StrangeNamesAreNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	names := []string{
		"{", "}", "{}", "%", "%7B", "%257B", "*", "?", "[a]", "a", "a:fence", "a:queue", "a}:fence", "{a}", "a b",
		"My Lock", "my-lock", "my lock", "ümlaut", "日本語", "\\", "^", "'", `"`, "..", "/", "//", strings.Repeat("x", 512), "a%00b",
	}
	tokens := map[string]int64{}
	for i, name := range names {
		tokens[name] = b.Take(name, fmt.Sprint(i), time.Minute).Token
	}
	size, err := b.admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.EqualValues(t, len(names), size)
	for i, name := range names {
		r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf(fmt.Sprint(i)), r.Fingerprint, name)
		require.Equal(t, tokens[name], r.Token)
		back, ok := script.Naming{Prefix: DefaultPrefix}.Name(b.keys(name).Name)
		require.True(t, ok)
		require.Equal(t, name, back)
		b.release(name, fmt.Sprint(i))
		require.False(t, b.stored(name).Held())
	}
}

func TestARepetitionProlongsAndNeverShortens(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	g := b.Take("n", "a", time.Minute)
	require.Equal(t, g.Token, b.Take("n", "a", time.Hour).Token)
	require.Greater(t, b.stored("n").Left(), 59*time.Minute)
	again := b.Take("n", "a", time.Minute)
	require.Equal(t, g.Token, again.Token)
	require.Greater(t, b.stored("n").Left(), 59*time.Minute, "it may be a late copy")
	require.Greater(t, b.left(k.Name), b.stored("n").Left()+providerkit.DefaultRetention-time.Second)

	require.NoError(t, b.renew(g, abstractions.Infinite))
	b.Take("n", "a", time.Minute)
	require.Equal(t, abstractions.Infinite, b.stored("n").Left())
	require.EqualValues(t, -1, b.left(k.Name))
}

// A clock that was ahead, and is set back, leaves an expiry that is later than the end of
// any holder's trust.
func TestALeaseLastsNoLongerThanItsTTLAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	s := b.stored("n")
	s.Till += (8 * time.Hour).Milliseconds()
	b.put("n", s)
	kept := b.left(b.keys("n").Name)
	_, err := b.Try("n", "b", time.Minute)
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	left, known := held.Holder.Remaining()
	require.True(t, known)
	require.LessOrEqual(t, left, time.Minute)
	require.Positive(t, b.stored("n").Left())
	require.LessOrEqual(t, b.stored("n").Left(), time.Minute+time.Second)
	require.InDelta(t, kept, b.left(b.keys("n").Name), float64(time.Minute), "kept for as long as before")
	require.NoError(t, b.renew(g, time.Minute), "its holder goes on")
}

func TestANameOutlivesItsLease(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	check := func(after string) {
		t.Helper()
		lease, kept := b.stored("n").Left(), b.left(b.keys("n").Name)
		if lease == abstractions.Infinite {
			require.EqualValues(t, -1, kept, after)
			return
		}
		require.GreaterOrEqual(t, kept, lease+providerkit.DefaultRetention-time.Second, after)
		require.Less(t, kept, 2*(lease+providerkit.DefaultRetention), after+": T28")
	}
	g := b.Take("n", "a", 100*time.Millisecond)
	check("acquire")
	for _, ttl := range []time.Duration{
		time.Minute, 5 * time.Hour, abstractions.Infinite, time.Second, 24 * time.Hour, time.Minute,
	} {
		require.NoError(t, b.renew(g, ttl))
		check(fmt.Sprint("renewal to ", ttl))
	}
	require.NoError(t, b.renew(g, abstractions.Infinite))
	b.release("n", "stranger")
	check("a stranger's release, infinite")
	require.NoError(t, b.renew(g, 24*time.Hour))
	b.release("n", "another")
	check("a stranger's release")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	check("a break")
	require.Equal(t, redistest.Digest("a")+"! "+redistest.Digest("another")+" "+redistest.Digest("stranger"), b.stored("n").Ended)
	b.release("n", "a")
	check("release")
}

func TestTrap_T28_AOneOffNameLeavesOneKeyForATime(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	for n := range 20 {
		name, id := fmt.Sprint("reply/", n), fmt.Sprint(n)
		switch n % 4 {
		case 0:
			b.Take(name, id, time.Minute)
			b.release(name, id)
		case 1:
			b.Take(name, id, 100*time.Millisecond)
			b.waitForExpiry(name)
		case 2:
			b.release(name, id) // of an acquire that never arrived
		case 3:
			g := b.Take(name, id, time.Minute)
			require.NoError(t, b.renew(g, abstractions.Infinite))
			b.breakNow(name)
		}
	}
	all, err := b.admin.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, all, 20)
	for _, key := range all {
		require.Positive(t, b.left(key), key)
		require.LessOrEqual(t, b.left(key), 2*providerkit.DefaultRetention, key)
	}
}
