package redislease

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// endings are the ways in which a lease can end.
var endings = map[string]func(b *bed, g abstractions.Grant){
	"release": func(b *bed, g abstractions.Grant) { b.release(g.Name, g.ID) },
	"expiry":  func(b *bed, g abstractions.Grant) { b.gone(b.keys(g.Name).lease) },
	"break":   func(b *bed, g abstractions.Grant) { b.breakNow(g.Name) },
	"break, deferred": func(b *bed, g abstractions.Grant) {
		_, err := b.Break(b.t.Context(), abstractions.BreakRequest{Name: g.Name})
		require.NoError(b.t, err)
		b.gone(b.keys(g.Name).lease)
	},
	"flush": func(b *bed, _ abstractions.Grant) { require.NoError(b.t, b.admin.FlushAll(b.t.Context()).Err()) },
	"deletion of the fence": func(b *bed, g abstractions.Grant) {
		require.NoError(b.t, b.admin.Del(b.t.Context(), b.keys(g.Name).fence).Err())
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
				g := b.acquire("n", fmt.Sprint("id", n), 150*time.Millisecond)
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
	g := b.acquire("n", "a", time.Minute)
	for range 3 {
		require.NoError(t, b.renew(g, time.Minute))
		require.Equal(t, g, b.acquire("n", "a", time.Minute))
	}
	r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, g.Token, r.Token)
}

// A clock that was ahead, on a master that has failed say, leaves a token in the future.
func TestTrap_T54_ATokenInTheFutureIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	ahead := 10 * time.Hour
	future := b.clock() + ahead.Microseconds()
	b.set(k.fence, fmt.Sprintf("%d old ", future), time.Hour)
	keptLong := func(after string) {
		t.Helper()
		require.Greater(t, b.left(k.fence), ahead, "%s: forgotten while its token is in the future, it would be handed out again", after)
	}

	g := b.acquire("n", "a", time.Minute)
	require.Equal(t, future+1, g.Token)
	keptLong("acquire")
	b.acquire("n", "a", 2*time.Minute)
	keptLong("a repetition")
	require.NoError(t, b.renew(g, time.Hour))
	keptLong("renewal")
	b.admin.Del(t.Context(), k.fence)
	require.NoError(t, b.renew(g, time.Hour))
	keptLong("renewal after a deletion")
	b.admin.Persist(t.Context(), k.fence)
	require.NoError(t, b.renew(g, time.Hour))
	require.Positive(t, b.left(k.fence), "not for ever")
	keptLong("renewal of what was kept for ever")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	keptLong("a break")
	b.release("n", "a")
	keptLong("release")
	b.release("n", "never")
	keptLong("release of a stranger")

	require.Equal(t, future+2, b.acquire("n", "b", time.Minute).Token)
	require.Equal(t, future+2, b.breakNow("n").Token)
	keptLong("an immediate break")
	require.Equal(t, future+3, b.acquire("n", "c", time.Minute).Token)
}

func TestTrap_T65_TokensKeepAllTheirDigits(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	b.set(k.fence, strconv.FormatInt(abstractions.MaxToken-1, 10)+" ", 0)
	g := b.acquire("n", "a", time.Minute)
	require.EqualValues(t, abstractions.MaxToken, g.Token)
	for what, look := range map[string]func() (int64, error){
		"a repetition": func() (int64, error) { g, err := b.try("n", "a", time.Minute); return g.Token, err },
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
			continue // the last, below
		}
		token, err := look()
		require.NoError(t, err, what)
		require.EqualValues(t, abstractions.MaxToken, token, what)
	}
	_, err := b.try("n", "b", time.Minute)
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

	before := b.get(k.fence)
	_, err = b.try("n", "c", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrUnavailable, "there is no token after the last")
	require.False(t, b.exists(k.lease))
	require.Equal(t, before, b.get(k.fence))
}

func TestTrap_T56_EndedIDsAreRemembered(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	refused := func(id string) {
		t.Helper()
		_, err := b.try("n", id, time.Minute)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		require.False(t, b.exists(b.keys("n").lease))
	}
	b.release("n", "never-held")
	refused("never-held")
	b.acquire("n", "held", time.Minute)
	b.release("n", "held")
	refused("held")
	refused("never-held")
	b.acquire("n", "broken", time.Minute)
	b.breakNow("n")
	refused("broken")
	b.release("n", "broken") // by its holder, who has not heard of it
	refused("broken")
	b.acquire("n", "expired", 100*time.Millisecond)
	b.gone(b.keys("n").lease)
	b.release("n", "expired")
	refused("expired")

	g := b.acquire("n", "present", time.Minute)
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
				b.acquire(name, id, time.Minute)
				b.breakNow(name)
			} else {
				b.release(name, id)
			}
		}
		for _, id := range all[len(all)-8:] {
			_, err := b.try(name, id, time.Minute)
			require.ErrorIs(t, err, abstractions.ErrReleased, "%s of %d", id, length)
		}
		require.Less(t, len(b.get(b.keys(name).fence)), 16+12*(64+2), "and not many more")
	}
	var all []string
	for range 20 {
		all = append(all, abstractions.NewID())
		b.acquire("all released", all[len(all)-1], time.Minute)
		b.release("all released", all[len(all)-1])
	}
	slices.Reverse(all)
	require.Equal(t, all[:8], strings.Fields(b.get(b.keys("all released").fence))[1:])
	words := strings.Fields(b.get(b.keys("length/36").fence))
	require.Equal(t, strings.Repeat("t", 36), words[1], "the latest first")
	require.Equal(t, strings.Repeat("s", 36)+"!", words[2], "broken")
}

func TestIDsThatBeginAlikeAreDifferent(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	ids := []string{"a", "a-", "aa", "aaa", "a-a", "A"}
	for _, ended := range ids {
		name := "n/" + ended
		b.release(name, ended)
		for _, id := range ids {
			g, err := b.try(name, id, time.Minute)
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
				_, err = b.try(name, other, time.Minute)
				if other != ended {
					require.ErrorIs(t, err, abstractions.ErrHeld, other)
				}
			}
			b.admin.Del(t.Context(), b.keys(name).lease)
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
		tokens[name] = b.acquire(name, fmt.Sprint(i), time.Minute).Token
	}
	size, err := b.admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.EqualValues(t, 2*len(names), size)
	for i, name := range names {
		r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), r.ID, name)
		require.Equal(t, tokens[name], r.Token)
		back, ok := naming{prefix: DefaultPrefix}.name(b.keys(name).fence)
		require.True(t, ok)
		require.Equal(t, name, back)
		b.release(name, fmt.Sprint(i))
		require.False(t, b.exists(b.keys(name).lease))
	}
}

func TestARepetitionProlongsAndNeverShortens(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	g := b.acquire("n", "a", time.Minute)
	require.Equal(t, g.Token, b.acquire("n", "a", time.Hour).Token)
	require.Greater(t, b.left(k.lease), 59*time.Minute)
	again := b.acquire("n", "a", time.Minute)
	require.Equal(t, g.Token, again.Token)
	require.Greater(t, b.left(k.lease), 59*time.Minute, "it may be a late copy")
	require.Greater(t, b.left(k.fence), b.left(k.lease)+providerkit.DefaultRetention-time.Second)

	require.NoError(t, b.renew(g, abstractions.Infinite))
	b.acquire("n", "a", time.Minute)
	require.EqualValues(t, -1, b.left(k.lease))
	require.EqualValues(t, -1, b.left(k.fence))
}

func TestTheFenceOutlivesItsLease(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	check := func(after string) {
		t.Helper()
		lease, fence := b.left(k.lease), b.left(k.fence)
		if lease == -1 {
			require.EqualValues(t, -1, fence, after)
			return
		}
		require.GreaterOrEqual(t, fence, max(0, lease)+providerkit.DefaultRetention-time.Second, after)
		require.Less(t, fence, 2*(max(0, lease)+providerkit.DefaultRetention), after+": T28")
	}
	g := b.acquire("n", "a", 100*time.Millisecond)
	check("acquire")
	for _, ttl := range []time.Duration{
		time.Minute, 5 * time.Hour, abstractions.Infinite, time.Second, 24 * time.Hour, time.Minute,
	} {
		require.NoError(t, b.renew(g, ttl))
		if ttl == time.Minute && b.left(k.fence) > 24*time.Hour {
			continue // it was to be kept for longer
		}
		check(fmt.Sprint("renewal to ", ttl))
	}
	b.admin.Del(t.Context(), k.fence)
	for _, ttl := range []time.Duration{time.Minute, abstractions.Infinite} {
		b.admin.Del(t.Context(), k.fence)
		require.NoError(t, b.renew(g, ttl))
		require.Equal(t, fmt.Sprintf("%d ", g.Token), b.get(k.fence), "restored")
		check("renewal after a deletion")
	}
	b.admin.Del(t.Context(), k.fence)
	b.release("n", "stranger")
	check("a stranger's release after a deletion, infinite")
	require.NoError(t, b.renew(g, 24*time.Hour))
	b.admin.Del(t.Context(), k.fence)
	b.release("n", "stranger")
	check("a stranger's release after a deletion")
	require.True(t, strings.HasPrefix(b.get(k.fence), fmt.Sprint(g.Token)))
	b.admin.Del(t.Context(), k.fence)
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	check("a break after a deletion")
	require.Equal(t, fmt.Sprintf("%d a! ", g.Token), b.get(k.fence))
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
			b.acquire(name, id, time.Minute)
			b.release(name, id)
		case 1:
			b.acquire(name, id, 100*time.Millisecond)
			b.gone(b.keys(name).lease)
		case 2:
			b.release(name, id) // of an acquire that never came
		case 3:
			g := b.acquire(name, id, time.Minute)
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
	require.False(t, slices.ContainsFunc(all, func(key string) bool { return !strings.HasSuffix(key, fenceSuffix) }))
}
