package postgreslease

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// acquiresOf returns pending acquires with IDs of their own.
func acquiresOf(names ...string) (all []*fastRequest) {
	for _, name := range names {
		id, ttl := abstractions.NewID(), time.Minute
		all = append(all, &fastRequest{Name: name, ID: id, Hash: dialect.HashOf(id), TTL: dialect.Micros(ttl), Metadata: `{"k":"v"}`})
	}
	return all
}

func requireUndecided(t *testing.T, q *fastRequest, why string) {
	t.Helper()
	require.NoError(t, q.Err(), why)
	require.False(t, q.done, why)
}

// In a batch each claim gets its own answer, and no claim waits for the row of another.
func TestTrap_T66_EachOfABatchIsDecidedByItself(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	b := backendOf(p)
	for _, name := range []string{"held", "locked", "free", "ended"} {
		claim, err := p.Acquire(ctx, claimOf(name, time.Minute))
		require.NoError(t, err)
		if name != "held" {
			require.NoError(t, p.Release(ctx, releaseOf(claim)))
		}
	}
	out, err := p.Acquire(ctx, claimOf("out", time.Hour))
	require.NoError(t, err)
	setBack(ctx, t, p, "out", 2*time.Hour)
	future := time.Now().Add(time.Hour).UnixMicro() // as if the clock had been ahead
	execute(ctx, t, p, "UPDATE {lease} SET token = $2, version = version + 1 WHERE name = $1", "free", future)
	all := acquiresOf("new", "held", "ended", "out", "locked", "free", "twice", "twice")
	fresh, held, ended, ranOut, locked, free, one, other := all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]
	require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "ended", ID: ended.ID}))
	unlock := lockRow(t, p, "locked", justLock)
	b.acquireMany(bounded(t), all, false)
	unlock()
	requireUndecided(t, held, "somebody has it")
	requireUndecided(t, ended, "its release came first")
	requireUndecided(t, locked, "somebody has the row")
	require.NotEqual(t, one.done, other.done, "one of two")
	for _, q := range []*fastRequest{fresh, ranOut, free} {
		require.NoError(t, q.Err())
		require.True(t, q.done, q.Name)
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: q.Name})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf(q.ID), record.Fingerprint)
		require.Equal(t, q.token, record.Token)
		require.Equal(t, q.now, record.AcquiredAt.UnixMicro())
		require.Equal(t, q.now+*q.TTL, record.ExpiresAt.UnixMicro())
		require.Equal(t, map[string]string{"k": "v"}, record.Metadata)
		require.GreaterOrEqual(t, q.token, q.now)
	}
	require.Greater(t, ranOut.token, out.Token)
	require.Equal(t, future+1, free.token)
	var transactions int
	statement := inTables(p, "SELECT count(DISTINCT xmin::text) FROM {lease} WHERE name IN ('new', 'out', 'free')")
	require.NoError(t, dialect.ViaSQL{Querier: b.db}.Query(ctx, statement, nil, func(scan dialect.Scan) error { return scan(&transactions) }))
	require.Equal(t, 1, transactions, "they share a commit")

	// Undecided acquires run alone.
	for q, want := range map[*fastRequest]error{held: abstractions.ErrHeld, ended: abstractions.ErrReleased, locked: nil} {
		_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: q.Name, ID: q.ID, Owner: "o", TTL: time.Minute})
		require.ErrorIs(t, err, want, q.Name)
	}

	releases := []*fastRequest{
		{Name: "free", ID: free.ID, Hash: free.Hash}, {Name: "held", ID: free.ID, Hash: free.Hash},
		{Name: "new", ID: fresh.ID, Hash: fresh.Hash}, {Name: "never", ID: free.ID, Hash: free.Hash},
	}
	unlock = lockRow(t, p, "new", justLock)
	b.releaseMany(bounded(t), releases, false)
	unlock()
	for _, q := range releases {
		require.NoError(t, q.Err())
		require.Equal(t, q.Name == "free", q.done, q.Name)
	}
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "free"})
	require.NoError(t, err)
	require.False(t, record.Held)
}

// A batch that the server refuses decides nothing about its claims.
func TestRefusedBatchLeavesEachToItself(t *testing.T) {
	t.Parallel()
	open := database.New(t)
	p := open()
	b := backendOf(p)
	in := b.Tables.Schema
	execPostgres(t, "CREATE FUNCTION "+in+`.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW.name = 'bad' THEN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON "+in+".lease FOR EACH ROW EXECUTE FUNCTION "+in+".refuse()")
	all := acquiresOf("good", "bad", "better")
	b.acquireMany(bounded(t), all, false)
	for _, q := range all {
		requireUndecided(t, q, q.Name)
	}
	_, err := p.Acquire(bounded(t), claimOf("bad", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	alone := acquiresOf("bad")
	b.acquireMany(bounded(t), alone, true)
	require.ErrorContains(t, alone[0].Err(), "40001")
	alone = acquiresOf("good")
	b.acquireMany(bounded(t), alone, true)
	require.True(t, alone[0].done)
}

// A batch returns its rows before its commit. If the server refuses the commit, for example because of a conflict of serializable
// transactions, no caller gets an answer.
func TestTrap_T99_AnswersBeforeACommitThatIsRefusedAreNone(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	b := backendOf(p)
	in := b.Tables.Schema
	claim, err := p.Acquire(ctx, claimOf("held", time.Minute))
	require.NoError(t, err)
	execPostgres(t, "CREATE FUNCTION "+in+`.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$`,
		"CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON "+in+".lease DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+in+".refuse()")
	acquires := acquiresOf("a", "b")
	b.acquireMany(bounded(t), acquires, false)
	releases := []*fastRequest{{Name: "held", ID: claim.ID, Hash: dialect.HashOf(claim.ID)}, {Name: "never", ID: claim.ID, Hash: dialect.HashOf(claim.ID)}}
	b.releaseMany(bounded(t), releases, false)
	for _, q := range append(acquires, releases...) {
		requireUndecided(t, q, q.Name)
	}
	_, err = p.Acquire(ctx, claimOf("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
}

// The statements store the same ended IDs as other changes.
func TestStatementsRememberWhatOtherChangesDo(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	for how, p := range map[string]*Provider{"alone": open(), "together": open("pool_max_conns", "1")} {
		b := backendOf(p)
		require.Equal(t, how == "alone", b.SQL["release"] != "")
		for _, ages := range [][2]int{{0, 0}, {3, 0}, {7, 0}, {8, 0}, {9, 0}, {3, 70}, {7, 70}, {8, 70}, {30, 70}, {70, 70}, {8, 3}, {40, 35}, {63, 0}, {64, 0}, {64, 20}, {64, 60}} {
			n, old := ages[0], ages[1]
			name := fmt.Sprintf("%s/%d/%d", how, n, old)
			claim, err := p.Acquire(ctx, claimOf(name, time.Minute))
			require.NoError(t, err)
			now := serverTime(t, claim)
			var before providerkit.Ended
			for i := range n { // the oldest come first; the first old IDs ended more than a minute ago
				at := now.Unix()
				if i < old {
					at -= 100
				}
				before = append(before, providerkit.EndedID{ID: fmt.Sprintf("id-%d", i), Broken: i%3 == 0, At: at})
			}
			execute(ctx, t, p, "UPDATE {lease} SET ended = $2, version = version + 1 WHERE name = $1", name, remembered(before))
			require.NoError(t, p.Release(ctx, releaseOf(claim)))
			r, _, err := b.find(ctx, name, claim.ID, nil)
			require.NoError(t, err)
			want := dialect.EncodeEnded(providerkit.Ended{{ID: claim.ID, At: now.Unix()}}, remembered(before))
			require.Equal(t, want[dialect.EndedBytes:], r.Memory[dialect.EndedBytes:], name)
			require.Len(t, r.Ended, 1)
			require.Equal(t, claim.ID, r.Ended[0].ID)
			require.False(t, r.Ended[0].Broken)
			require.InDelta(t, now.Unix(), r.Ended[0].At, 20)
		}
	}
}

// Batches of several processes with the same names in any order don't block each other.
func TestBatchesOfTheSameNamesMeetNoDeadlock(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	var mu sync.Mutex
	tokens := map[string]map[int64]bool{}
	var all sync.WaitGroup
	for _, p := range []*Provider{open(), open(), open("history", "true")} {
		for worker := range 12 {
			all.Go(func() {
				for i := range 25 {
					name := fmt.Sprintf("n%d", (worker*i+i)%10)
					claim, err := p.Acquire(ctx, claimOf(name, time.Minute))
					if err != nil {
						assert.ErrorIs(t, err, abstractions.ErrHeld)
						continue
					}
					mu.Lock()
					if tokens[name] == nil {
						tokens[name] = map[int64]bool{}
					}
					assert.False(t, tokens[name][claim.Token], "a token twice")
					tokens[name][claim.Token] = true
					mu.Unlock()
					assert.NoError(t, p.Release(ctx, releaseOf(claim)))
				}
			})
		}
	}
	all.Wait()
}

// A single statement that waits for a row ends when its caller leaves. Otherwise it would occupy a
// connection of the pool, and might acquire the name much later.
func TestTrap_T33_StatementEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	defer lockRow(t, p, "n", justLock)()
	caller, leave := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { require.ErrorIs(t, p.Release(caller, releaseOf(claim)), context.Canceled) })
	waitBlocked(t, p, 1)
	leave()
	done.Wait()
	conn := connectPostgres(t)
	defer conn.Close(ctx)
	require.Eventually(t, func() (ended bool) {
		err := conn.QueryRow(ctx, "SELECT count(*) = 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()",
			dialecttest.StoreOf(p).Tables.Schema).Scan(&ended)
		require.NoError(t, err)
		return ended
	}, 20*time.Second, 5*time.Millisecond)
}

// remembered returns the stored form of IDs that were added one after the other.
func remembered(ended providerkit.Ended) []byte {
	stored := dialect.EncodeEnded(nil, nil)
	for i := range ended {
		stored = dialect.EncodeEnded(ended[i:i+1], stored)
	}
	return stored
}
