package postgreslease

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reserve makes waiters queue for a name, releases the name, and sets the remaining time of the first waiter's
// reservation.
func reserve(ctx context.Context, t testing.TB, p *Provider, name string, during string, waiters ...string) {
	t.Helper()
	claim := take(ctx, t, p, name, abstractions.NewID())
	for _, id := range waiters {
		join(ctx, t, p, name, id)
	}
	require.NoError(t, p.Release(ctx, releaseOf(claim)))
	execute(ctx, t, p, "UPDATE {lease} SET expires_at = clock_timestamp() + $2::text::interval WHERE name = $1", name, during)
}

func queueOf(ids ...string) (waiters []string) {
	for _, id := range ids {
		waiters = append(waiters, dialect.WaiterOf(id))
	}
	return waiters
}

// However the acquire is sent, only the first waiter gets a reserved name. Its entry leaves the queue, and the other waiters
// keep their places.
func TestAReservedPostgresNameIsTheFirsts(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	for how, p := range map[string]*Provider{"alone": open(), "together": open("pool_max_conns", "1"), "noted": open("history", "true")} {
		reserve(ctx, t, p, how, "50 s", "a", "b", "c")
		require.Equal(t, queueOf("a", "b", "c"), waitersOf(ctx, t, p, how))
		for _, id := range []string{"stranger", "b", "c"} {
			held := refused(ctx, t, p, how, id)
			require.False(t, held.Holder.Held)
			require.Greater(t, held.RetryAfter, 20*time.Second)
		}
		token := take(ctx, t, p, how, "a").Token
		require.Equal(t, queueOf("b", "c"), waitersOf(ctx, t, p, how))
		refused(ctx, t, p, how, "b")
		require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: how, ID: "a", Token: token}))
		_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: how, ID: "a", Owner: "tester", TTL: time.Minute})
		require.ErrorIs(t, err, abstractions.ErrReleased)
	}
}

// A waiter that has missed its turn loses its place when another claim acquires the name.
func TestAPostgresReservationEnds(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	reserve(ctx, t, p, "stranger", "-1 ms", "a", "b")
	take(ctx, t, p, "stranger", "x")
	require.Equal(t, queueOf("b"), waitersOf(ctx, t, p, "stranger"))

	reserve(ctx, t, p, "another waiter", "-1 ms", "a2", "b2", "c2")
	take(ctx, t, p, "another waiter", "c2")
	require.Equal(t, queueOf("b2"), waitersOf(ctx, t, p, "another waiter"))

	reserve(ctx, t, p, "a clock set back", "1 hour", "a3")
	take(ctx, t, p, "a clock set back", "y")

	claim := take(ctx, t, p, "expired", "z")
	join(ctx, t, p, "expired", "a4")
	join(ctx, t, p, "expired", "b4")
	setBack(ctx, t, p, "expired", time.Hour)
	take(ctx, t, p, "expired", "b4")
	require.Equal(t, queueOf("a4"), waitersOf(ctx, t, p, "expired"), "nobody had a turn")
	lostBecause(t, second(p.Renew(ctx, renewalOf(claim))), abstractions.LostTaken)
}

func second[T any](_ T, err error) error { return err }

// A waiter that leaves passes its turn on, and is forgotten.
func TestAPostgresWaiterLeaves(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	claim := take(ctx, t, p, "n", "holder")
	leave := map[string]context.CancelFunc{}
	wakeups := map[string]abstractions.Wakeups{}
	for _, id := range []string{"a", "b", "c", "d"} {
		var waiting context.Context
		waiting, leave[id] = context.WithCancel(ctx)
		wakeups[id] = join(waiting, t, p, "n", id)
	}
	left := func(id string, others ...string) {
		leave[id]()
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(queueOf(others...), waitersOf(ctx, t, p, "n")) }, 20*time.Second, time.Millisecond)
	}
	left("b", "a", "c", "d")
	require.NoError(t, p.Release(ctx, releaseOf(claim)))
	awaitWakeup(t, wakeups["a"])
	execute(ctx, t, p, "UPDATE {lease} SET expires_at = clock_timestamp() + interval '50 s'")
	awaitWakeup(t, wakeups["c"]) // in case the first hangs
	left("a", "c", "d")
	awaitWakeup(t, wakeups["c"])
	take(ctx, t, p, "n", "c")
	leave["c"]()
	left("d")
}

// Break wakes the waiters, at once or when an infinite lease begins to run out.
func TestBreakingWakesThePostgresQueue(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	_, err := p.Acquire(ctx, claimOf("n", leasing.Infinite))
	require.NoError(t, err)
	first := join(ctx, t, p, "n", "a")
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Grace: time.Minute})
	require.NoError(t, err)
	awaitWakeup(t, first)
	refused(ctx, t, p, "n", "a")
	_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	awaitWakeup(t, first)
	var reserved bool
	statement := inTables(p, "SELECT expires_at IS NOT NULL FROM {lease}")
	require.NoError(t, dialect.ViaSQL{Querier: backendOf(p).db}.Query(ctx, statement, nil, func(scan dialect.Scan) error { return scan(&reserved) }))
	require.True(t, reserved)
	take(ctx, t, p, "n", "a")
	require.Empty(t, waitersOf(ctx, t, p, "n"))
}

// Loops in several processes, some of which can't listen, get equal shares of a name.
func TestTrap_T72_PostgresLoopsShareAName(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	const loops, rounds = 6, 20
	var all sync.WaitGroup
	var mu sync.Mutex
	counts, begun := make([]int, loops), make([]int, 0, loops) // begun has the counts at the time when every loop had held the name
	loop, stop := context.WithCancel(ctx)
	had := func(who int) {
		mu.Lock()
		defer mu.Unlock()
		counts[who]++
		if len(begun) == 0 && slices.Min(counts) > 0 {
			begun = append(begun, counts...)
		}
		if len(begun) > 0 && counts[who] == begun[who]+rounds {
			stop()
		}
	}
	for i := range loops {
		var parameters []string
		if i%2 == 1 {
			parameters = []string{"no_wakeups", "true"}
		}
		m, err := leasing.NewManager(open(parameters...), leasing.Options{})
		require.NoError(t, err)
		defer m.Close(context.Background())
		all.Go(func() {
			for loop.Err() == nil {
				err := m.Do(loop, "n", func(context.Context, *leasing.Lease) error { had(i); return nil })
				assert.True(t, err == nil || loop.Err() != nil, err)
			}
		})
	}
	all.Wait()
	for i, n := range counts {
		require.Greater(t, n-begun[i], rounds/4, "while the first had %d", rounds)
	}
}

// If a holder has died, the next holder gets the name within 5 ms after the TTL, by the server's clock.
func TestPostgresTakesOverInTime(t *testing.T) {
	ctx, open := bounded(t), database.New(t)
	p := open()
	m, err := leasing.NewManager(p, leasing.Options{})
	require.NoError(t, err)
	defer m.Close(context.Background())
	least := time.Hour
	for round := 0; round < 50 && least > 5*time.Millisecond; round++ { // a machine may be busy
		name := fmt.Sprint("n", round)
		dead, err := p.Acquire(ctx, claimOf(name, 150*time.Millisecond))
		require.NoError(t, err)
		next, err := m.Acquire(ctx, name)
		require.NoError(t, err)
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		late := record.AcquiredAt.Sub(expiry(t, dead))
		require.GreaterOrEqual(t, late, time.Duration(0))
		least = min(least, late)
		require.NoError(t, next.Release(ctx))
	}
	require.LessOrEqual(t, least, 5*time.Millisecond)
}

// A name may occur in one batch several times: each request gets its own answer.
func TestTrap_T66_ANameTwiceInAPostgresBatch(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	b := backendOf(p)
	all := acquiresOf("n", "n", "m", "n")
	all[3].ID, all[3].Hash = all[0].ID, all[0].Hash // the same request twice
	m := all[2]
	b.acquireMany(bounded(t), slices.Clone(all), false)
	done := map[string]int{}
	winner := ""
	for _, q := range all {
		require.NoError(t, q.Err())
		if q.done {
			done[q.Name]++
			if q.Name == "n" {
				winner = q.ID
			}
		}
	}
	require.Equal(t, map[string]int{"n": 1, "m": 1}, done)
	for _, q := range all {
		if !q.done {
			claim, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: q.Name, ID: q.ID, Owner: "o", TTL: time.Minute})
			if q.ID == winner {
				require.NoError(t, err, "the same request")
				require.Positive(t, claim.Token)
				continue
			}
			require.ErrorIs(t, err, abstractions.ErrHeld)
		}
	}

	join(ctx, t, p, "n", "waiter")
	stranger := abstractions.NewID()
	releases := []*fastRequest{
		{Name: "n", ID: stranger, Hash: dialect.HashOf(stranger)}, {Name: "n", ID: winner, Hash: dialect.HashOf(winner)},
		{Name: "m", ID: m.ID, Hash: m.Hash}, {Name: "n", ID: winner, Hash: dialect.HashOf(winner)},
	}
	b.releaseMany(bounded(t), releases, false)
	for _, q := range releases {
		require.NoError(t, q.Err())
		if !q.done {
			require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: q.Name, ID: q.ID}))
		}
	}
	for _, id := range []string{stranger, winner} {
		_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: id, Owner: "o", TTL: time.Minute})
		require.ErrorIs(t, err, abstractions.ErrReleased)
	}
	take(ctx, t, p, "n", "waiter")
	take(ctx, t, p, "m", abstractions.NewID())
}

// In one batch no claim acquires a name out of turn, and a freed name goes to its own head waiter.
func TestABatchObeysThePostgresQueue(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	b := backendOf(p)
	all := acquiresOf("x", "y", "z")
	reserve(ctx, t, p, "x", "50 s", all[0].ID, "behind")
	reserve(ctx, t, p, "y", "50 s", "another", all[1].ID)
	b.acquireMany(bounded(t), slices.Clone(all), false)
	require.True(t, all[0].done)
	requireUndecided(t, all[1], "it is another's turn")
	require.True(t, all[2].done)
	require.Equal(t, queueOf("behind"), waitersOf(ctx, t, p, "x"))
	require.Equal(t, queueOf("another", all[1].ID), waitersOf(ctx, t, p, "y"))
	wakeups := join(ctx, t, p, "z", "waiter")
	b.releaseMany(bounded(t), []*fastRequest{{Name: "x", ID: all[0].ID, Hash: all[0].Hash}, {Name: "z", ID: all[2].ID, Hash: all[2].Hash}}, false)
	awaitWakeup(t, wakeups)
	take(ctx, t, p, "z", "waiter")
}

// Wakeups.Message parses the text of a notification.
func TestTurnsAreAskedForByText(t *testing.T) {
	text, err := json.Marshal([]dialect.Turn{{Name: "n", ID: dialect.WaiterOf("a")}})
	require.NoError(t, err)
	require.JSONEq(t, `[{"name": "n", "id": "`+dialect.WaiterOf("a")+`"}]`, string(text))
	w := dialect.NewWakeups(nil, nil)
	for _, text := range []string{"", "x", dialect.WaiterOf("a"), dialect.WaiterOf("a") + " soon", dialect.WaiterOf("a") + " 0"} {
		require.Empty(t, w.Message(text), "nobody waits")
	}
}

// The identities of waiters that have left are deleted from time to time, and when the name is deleted. The identities of
// waiters in the queue stay.
func TestThoseWhoHaveWaitedAreForgotten(t *testing.T) {
	ctx, open := bounded(t), database.New(t)
	p := open("retention", "1h")
	b := backendOf(p)
	b.Random = func(int) int { return 1 }
	holder := take(ctx, t, p, "n", "holder")
	for range 20 {
		id := abstractions.NewID()
		join(ctx, t, p, "n", id)
		require.NoError(t, p.Release(ctx, releaseOf(holder)))
		holder = take(ctx, t, p, "n", id)
	}
	join(ctx, t, p, "n", "patient")
	require.Equal(t, 21, countRows(t, p, "{waiters}"))
	execute(ctx, t, p, "UPDATE {waiters} SET since = since - interval '1 hour'")
	b.Random = func(int) int { return 0 }
	join(ctx, t, p, "n", "new")
	require.Equal(t, 2, countRows(t, p, "{waiters}"))
	require.Equal(t, fingerprints("patient", "new"), listed(ctx, t, p, "n"))

	for _, next := range []string{"patient", "new"} {
		require.NoError(t, p.Release(ctx, releaseOf(holder)))
		holder = take(ctx, t, p, "n", next)
	}
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	idle(t, p, 2*time.Hour)
	_, err := p.Sweep(ctx)
	require.NoError(t, err)
	require.Zero(t, countRows(t, p, "{lease} WHERE name <> ''")+countRows(t, p, "{waiters}"))
}
