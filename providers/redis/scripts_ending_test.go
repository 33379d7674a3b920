package redislease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

func TestTrap_T20_WhatHasEndedIsNotRenewed(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", 100*time.Millisecond)
	b.waitForExpiry("n")
	redistest.RequireLost(t, b.renew(g, time.Minute), abstractions.LostExpired)
	require.False(t, b.stored("n").Held(), "not revived")

	next := b.Take("n", "b", time.Minute)
	redistest.RequireLost(t, b.renew(g, time.Hour), abstractions.LostTaken)
	require.Less(t, b.stored("n").Left(), 2*time.Minute)
	b.release("n", "b")
	redistest.RequireLost(t, b.renew(g, time.Minute), abstractions.LostTaken)
	redistest.RequireLost(t, b.renew(next, time.Minute), abstractions.LostGone)

	broken := b.Take("n", "c", time.Minute)
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	redistest.RequireLost(t, b.renew(broken, time.Hour), abstractions.LostBroken)
	require.Less(t, b.stored("n").Left(), 2*time.Minute)
	b.breakNow("n")
	redistest.RequireLost(t, b.renew(broken, time.Hour), abstractions.LostBroken)

	old := b.Take("n", "d", 100*time.Millisecond)
	b.waitForExpiry("n")
	again := b.Take("n", "d", time.Minute)
	require.Greater(t, again.Token, old.Token)
	require.ErrorIs(t, b.renew(old, time.Minute), abstractions.ErrLost, "the claim with the old token is over")
	require.NoError(t, b.renew(again, time.Minute))

	require.NoError(t, b.admin.FlushAll(t.Context()).Err())
	redistest.RequireLost(t, b.renew(again, time.Minute), abstractions.LostGone)
}

func TestTrap_T63_ABreakMeansOneLease(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	first := b.Take("n", "a", time.Minute)
	b.release("n", "a")
	second := b.Take("n", "b", time.Minute)
	for _, immediate := range []bool{true, false} {
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: first.Token, Immediate: immediate})
		require.ErrorIs(t, err, abstractions.ErrStale)
		require.NoError(t, b.renew(second, time.Minute))
	}
}

func TestABreakLetsALeaseRunOut(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Grace: time.Hour})
	require.NoError(t, err)
	require.True(t, r.WasHeld)
	require.Equal(t, g.Token, r.Token)
	require.InDelta(t, time.Minute, r.Remaining, float64(10*time.Second), "grace is for infinite leases")
	record, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held && record.Breaking)
	require.Equal(t, abstractions.FingerprintOf("a"), record.Fingerprint)
	again, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, g.Token, again.Token)
	require.Positive(t, again.Remaining)
	_, err = b.Try("n", "a", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrReleased)
	_, err = b.Try("n", "b", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld, "until it has run out")
	b.release("n", "a") // its holder has noticed the break
	require.False(t, b.stored("n").Held())
	require.Greater(t, b.Take("n", "b", time.Minute).Token, g.Token)
}

func TestABreakOfAnInfiniteLeaseGivesItGrace(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	for n, grace := range []time.Duration{0, time.Nanosecond, time.Hour, abstractions.Infinite - 1, abstractions.Infinite} {
		id := fmt.Sprint(n)
		require.NoError(t, b.renew(b.Take("n", id, time.Minute), abstractions.Infinite))
		require.Equal(t, abstractions.Infinite, b.stored("n").Left())
		r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Grace: grace})
		require.NoError(t, err, grace)
		require.True(t, r.WasHeld)
		if grace < time.Second {
			require.LessOrEqual(t, r.Remaining, time.Millisecond)
			b.waitForExpiry("n")
			continue
		}
		require.InDelta(t, min(grace, script.MaxTTL), b.stored("n").Left(), float64(time.Minute), "not freed at once: %v", grace)
		b.breakNow("n")
	}
}

func TestTrap_T17_NoLeaseIsEverWithoutItsTTL(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "a", time.Minute)
	require.Positive(t, b.stored("n").Left())
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Positive(t, b.stored("n").Left())

	rights := strings.Fields(strings.TrimPrefix(ACLRules, "~leasing:* &leasing:wake:*"))
	for _, missing := range rights {
		t.Run(missing, func(t *testing.T) {
			user := strings.ReplaceAll(ACLRules+" ", missing+" ", "")
			b := newBed(t, redistest.Options{Users: []string{"app on >secret " + user, "default on nopass ~* &* +@all"}})
			p := openTest(t, Options{URL: appURL(b.server)})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			g, err := p.Acquire(ctx, redistest.AcquireRequest("n", "a", time.Minute))
			if err != nil {
				require.ErrorIs(t, err, abstractions.ErrDenied, "definite")
				require.False(t, b.stored("n").Held())
				return
			}
			require.Positive(t, b.stored("n").Left())
			_, err = p.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: "a", Token: g.Token, TTL: time.Hour})
			if err != nil {
				require.ErrorIs(t, err, abstractions.ErrDenied)
			}
			require.Positive(t, b.stored("n").Left())
			err = p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "a"})
			if err != nil {
				require.ErrorIs(t, err, abstractions.ErrDenied)
				require.True(t, b.stored("n").Held(), "not half done")
			} else {
				require.False(t, b.stored("n").Held())
				_, err = b.Try("n", "a", time.Minute)
				require.ErrorIs(t, err, abstractions.ErrReleased, "not half done")
			}
		})
	}
}

func appURL(s *redistest.Server) string { return "redis://app:secret@" + s.Addr() }

// A user without permission to publish still frees a name, and stores the ended ID.
func TestReleaseSucceedsWithoutTheRightToWake(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"+publish", "+zpopmin", "+zrange"} {
		t.Run(missing, func(t *testing.T) {
			user := strings.ReplaceAll(ACLRules, missing+" ", "")
			require.NotEqual(t, ACLRules, user)
			b := newBed(t, redistest.Options{Users: []string{"app on >secret " + user, "default on nopass ~* &* +@all"}})
			p := openTest(t, Options{URL: appURL(b.server)})
			for _, end := range []string{"release", "break"} {
				name, id := "n/"+end, "a-"+end
				g, err := p.Acquire(t.Context(), redistest.AcquireRequest(name, id, time.Minute))
				require.NoError(t, err)
				ctx, leave := context.WithCancel(t.Context())
				for _, waiter := range []string{"w1", "w2"} {
					_, err := b.Wait(ctx, abstractions.WaitRequest{Name: name, ID: waiter + end})
					require.NoError(t, err)
					_, err = b.Try(name, waiter+end, time.Minute)
					require.ErrorIs(t, err, abstractions.ErrHeld)
				}
				if end == "break" {
					_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
				} else {
					err = p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: id})
				}
				require.NoError(t, err)
				require.False(t, b.stored(name).Held())
				_, err = p.Acquire(t.Context(), redistest.AcquireRequest(name, id, time.Minute))
				require.ErrorIs(t, err, abstractions.ErrReleased)
				b.eventually(func() bool { // the reservation, if there is one, ends
					second, err := b.Try(name, "b-"+end, time.Minute)
					require.True(t, err == nil || errors.Is(err, abstractions.ErrHeld), err)
					return err == nil && second.Token > g.Token
				})
				leave()
			}
		})
	}
}

const otherLease = "10000000-3c5d-4b1e-8f10-2d3f4a5b6c7d\n1763800000000000\n1763800000000000\n\n60000\nme\n"

func TestForeignKeysAreRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	refuse := func(t *testing.T, b *bed, want string) {
		for verb, err := range everyCallOnClaim(b, "n", "a") {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, verb)
			require.ErrorContains(t, err, "Options.Prefix")
			require.ErrorContains(t, err, want)
		}
	}
	t.Run("list", func(t *testing.T) {
		b := newBed(t, redistest.Options{})
		key := b.keys("n").Name
		require.NoError(t, b.admin.RPush(t.Context(), key, "theirs").Err())
		refuse(t, b, "WRONGTYPE")
		require.EqualValues(t, -1, b.left(key))
		require.Equal(t, []string{"theirs"}, b.admin.LRange(t.Context(), key, 0, -1).Val())
	})
	// A record that begins with "B" is from a later release, and a record that begins with a digit is from before release 0.1.0.
	for _, text := range []string{
		"theirs", "", "A", "A763", "B" + redistest.Free(7).String()[1:], "2" + redistest.Free(7).String()[1:], "1" + redistest.Free(7).String()[1:], "A-" + otherLease, otherLease,
	} {
		t.Run("text "+text, func(t *testing.T) {
			b := newBed(t, redistest.Options{})
			key := b.keys("n").Name
			b.set(key, text, 0)
			refuse(t, b, "another version")
			require.Equal(t, text, b.get(key))
			require.EqualValues(t, -1, b.left(key))
		})
	}
	t.Run("queue", func(t *testing.T) {
		b := newBed(t, redistest.Options{})
		key := b.keys("n").Queue
		require.NoError(t, b.admin.RPush(t.Context(), key, "theirs").Err())
		g := b.Take("n", "a", time.Minute)
		_, err := b.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "b"})
		require.NoError(t, err)
		_, err = b.Try("n", "b", time.Minute)
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.NoError(t, b.renew(g, time.Minute))
		b.release("n", "a")
		_, err = b.Try("n", "a", time.Minute)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		require.Greater(t, b.Take("n", "b", time.Minute).Token, g.Token)
		b.breakNow("n")
		require.Equal(t, []string{"theirs"}, b.admin.LRange(t.Context(), key, 0, -1).Val())
	})
}

// everyCallOnClaim makes each kind of call, and returns the errors.
func everyCallOnClaim(b *bed, name, id string) map[string]error {
	_, acquire := b.Try(name, id, time.Minute)
	_, now := b.Break(b.t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
	_, later := b.Break(b.t.Context(), abstractions.BreakRequest{Name: name})
	_, inspect := b.Inspect(b.t.Context(), abstractions.InspectRequest{Name: name})
	return map[string]error{
		"acquire": acquire,
		"renew":   b.renew(abstractions.Grant{Name: name, ID: id, Token: 1}, time.Minute),
		"release": b.Release(b.t.Context(), abstractions.ReleaseRequest{Name: name, ID: id}),
		"break":   now, "break, deferred": later, "inspect": inspect,
	}
}

func TestWithoutMemoryNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_, err := b.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "waiter"})
	require.NoError(t, err)
	require.NoError(t, b.admin.ConfigSet(t.Context(), "maxmemory", "1").Err())

	_, err = b.Try("other", "b", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.False(t, b.exists(b.keys("other").Name))
	_, err = b.Try("n", "waiter", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld, "although there is no room in the queue")
	require.Empty(t, b.waitList("n"))
	require.NoError(t, b.renew(g, time.Hour))
	b.release("n", "a")
	require.False(t, b.stored("n").Held())
	_, err = b.Try("n", "a", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrReleased)
	_, err = b.Try("n", "waiter", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.NoError(t, b.admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Greater(t, b.Take("n", "waiter", time.Minute).Token, g.Token)
}
