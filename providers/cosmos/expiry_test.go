package cosmoslease

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/internal/fake"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// at is a second of the service's.
func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0).UTC() }

func heldBy(h holder, written, read int64) snapshot {
	return snapshot{doc: &document{Name: "n", Token: 1, Holder: &h}, etag: `"e"`, ts: at(written), now: at(read)}
}

func TestALeaseIsOverByTheServicesTimeAlone(t *testing.T) {
	e := expiry{skew: 2 * time.Second}
	ten := holder{ID: "a", TTL: 10_000}
	for name, test := range map[string]struct {
		s    snapshot
		over bool
	}{
		"just written":                   {heldBy(ten, 0, 0), false},
		"its TTL later":                  {heldBy(ten, 0, 10), false},
		"but for a second":               {heldBy(ten, 0, 12), false},
		"TTL, second and skew":           {heldBy(ten, 0, 13), true},
		"part of a second more":          {heldBy(holder{TTL: 10_001}, 0, 13), false},
		"read by a clock that is behind": {heldBy(ten, 0, -5), false},
		"infinite":                       {heldBy(holder{}, 0, 1<<30), false},
		"written by others since":        {heldBy(holder{TTL: 10_000, Ends: at(10).UnixMilli()}, 9, 13), true},
		"not that long ago":              {heldBy(holder{TTL: 10_000, Ends: at(10).UnixMilli()}, 9, 12), false},
		"free":                           {snapshot{doc: &document{}, now: at(0)}, true},
		"unseen":                         {snapshot{now: at(0)}, true},
		"no Date":                        {snapshot{doc: &document{Holder: &ten}, ts: at(0)}, false},
	} {
		require.Equal(t, test.over, e.over(test.s), name)
	}
}

// Whatever the moments within their seconds, and the disagreement of clocks that
// is allowed: a lease is never over before its TTL, and always after precision.
func TestExpiryIsNeverEarlyNorTooLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milliseconds := func(name string, least, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(least, most).Draw(t, name)) * time.Millisecond
		}
		e := expiry{skew: milliseconds("allowance", 1, 5000)}
		ttl := milliseconds("ttl", 5000, 100_000)
		replica := milliseconds("replica", -5000, 5000)
		replica = max(-e.skew, min(e.skew, replica))
		written := at(0).Add(milliseconds("written", 0, 5000))
		read := written.Add(milliseconds("later", 0, 130_000))
		s := snapshot{
			doc: &document{Holder: &holder{ID: "a", TTL: ttl.Milliseconds()}},
			ts:  written.Add(replica).Truncate(time.Second), now: read.Truncate(time.Second),
		}
		switch later := read.Sub(written); {
		case later < ttl:
			require.False(t, e.over(s), "%v after the write", later)
		case later >= ttl+e.precision():
			require.True(t, e.over(s), "%v after the write", later)
		}
	})
}

// T02: the clients' wall clocks have no part in it: here they are minutes off, to
// both sides, and the service's own clocks are as far apart as is allowed.
func TestTrap_T02_TheClientsClockDecidesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{14 * time.Minute, -14 * time.Minute} {
		for _, replica := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				now := func() time.Time { return time.Now().Add(ahead) }
				b := newBed(t, fake.Options{Now: now, ReplicaSkew: replica})
				b.acquire("n", "a")
				sent := time.Now()
				time.Sleep(58 * time.Second)
				for {
					_, err := b.process().Acquire(t.Context(), wish("n", "b", time.Minute)) // has watched nothing
					if err == nil {
						break
					}
					require.ErrorIs(t, err, abstractions.ErrHeld)
					time.Sleep(250 * time.Millisecond)
				}
				require.GreaterOrEqual(t, time.Since(sent), time.Minute)
				require.LessOrEqual(t, time.Since(sent), time.Minute+b.caps.Lateness.Fixed+250*time.Millisecond)
			})
		}
	}
}

// A waiter that has watched the lease from its beginning need not wait for the
// service's seconds and its clocks.
func TestAWatchedLeaseIsFreeSooner(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		watcher := b.process()
		try := func() (abstractions.Grant, *abstractions.HeldError) {
			g, err := watcher.Acquire(t.Context(), wish("n", "b", time.Minute))
			var held *abstractions.HeldError
			if err != nil {
				require.ErrorAs(t, err, &held)
			}
			return g, held
		}
		_, held := try()
		require.Equal(t, time.Minute+600*time.Millisecond+watchFloor, held.RetryAfter)
		time.Sleep(30 * time.Second)
		_, err := b.renew(g) // begins anew
		require.NoError(t, err)
		_, held = try()
		require.Equal(t, time.Minute+600*time.Millisecond+watchFloor, held.RetryAfter)
		time.Sleep(held.RetryAfter - 1)
		_, held = try()
		require.EqualValues(t, 1, held.RetryAfter)
		_, err = b.process().Acquire(t.Context(), wish("n", "c", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		time.Sleep(time.Nanosecond)
		next, _ := try()
		require.Greater(t, next.Token, g.Token)
	})
}

// What a lagging replica shows looks unchanged, and may have been renewed.
func TestAWatchBehindALaggingReplicaTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		watcher := b.process()
		watch := func() error { _, err := watcher.Acquire(t.Context(), wish("n", "b", time.Minute)); return err }
		require.ErrorIs(t, watch(), abstractions.ErrHeld)
		time.Sleep(59 * time.Second)
		_, err := b.renew(g)
		require.NoError(t, err)
		b.account.Before(on(fake.ReadItem, fake.Fault{Stale: true}))
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, watch(), abstractions.ErrHeld, "it read what was before, and was refused the write")
		require.Equal(t, "a", b.inspect("n").ID)
	})
}

func TestAWatchKeepsABoundedNumberOfNames(t *testing.T) {
	var w watch
	for i := range 3 * maxWatched {
		s := heldBy(holder{TTL: 1000}, 0, 0)
		s.doc.Name = string(rune(i + 0x1000))
		w.observe(s)
	}
	require.Len(t, w.seen, maxWatched)
}

func TestAnInfiniteLeaseIsNeverWatchedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		s := heldBy(holder{}, 0, 0)
		w.observe(s)
		time.Sleep(1000 * time.Hour)
		_, over := w.observe(s)
		require.False(t, over)
	})
}

// T45: a time to live does not end a lease, whoever set it, and does not begin one.
func TestTrap_T45_TheServicesTimeToLiveDecidesNothing(t *testing.T) {
	for _, expire := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, fake.Options{})
			b.account.SetTTL(testDatabase, testContainer, 1)
			p := b.process(func(o *Options) { o.ExpireDocuments, o.Retention = expire, time.Minute })
			g, err := p.Acquire(t.Context(), wish("n", "a", time.Hour))
			require.NoError(t, err)
			time.Sleep(59 * time.Minute)
			require.True(t, b.inspect("n").Held, "after an hour of a container whose items live for a second")
			_, err = b.try("n", "b")
			require.ErrorIs(t, err, abstractions.ErrHeld)
			require.NoError(t, p.Release(t.Context(), giveUp(g)))
			time.Sleep(59 * time.Second)
			require.Equal(t, g.Token, b.inspect("n").Token)
			time.Sleep(2 * time.Second)
			after := b.inspect("n").Token
			if expire {
				require.Zero(t, after, "deleted by the service")
			} else {
				require.Equal(t, g.Token, after)
			}
			next := b.acquire("n", "b")
			require.Greater(t, next.Token, g.Token)
		})
	}
}

// Where an item that has expired stands in the way of a new one, as long as the
// service has not swept it, that is said, and not tried for ever.
func TestTrap_T45_AnExpiredDocumentInTheWayIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, fake.Options{ExpiredBlocks: true})
		b.account.SetTTL(testDatabase, testContainer, -1)
		p := b.process(func(o *Options) { o.ExpireDocuments = true })
		g, err := p.Acquire(t.Context(), wish("n", "a", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context(), giveUp(g)))
		time.Sleep(DefaultRetention + time.Second)
		b.account.Record()
		_, err = p.Acquire(t.Context(), wish("n", "b", time.Minute))
		requireUnknown(t, err)
		verbs := slices.DeleteFunc(b.verbs(), func(v fake.Verb) bool { return v == fake.ReadAccount }) // which azcosmos looks at now and then
		require.Equal(t, []fake.Verb{fake.ReadItem, fake.CreateItem, fake.ReadItem}, verbs)
	})
}
