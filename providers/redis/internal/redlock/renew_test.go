package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A renewal restores the lease on a node that has lost it, or never had it, so that
// another node may fail next.
func TestRedlockRenewalLocksAgain(t *testing.T) {
	r, p := newRingOfThree(t)
	p.wires[2].cut(lostRequest)
	g := p.Take("a", "x", time.Minute)
	p.wires[2].cut(nil)
	before := p.RecordOf("a")
	r.drop(1, "a")
	g, err := p.RenewGrant(g, 40*time.Second)
	require.NoError(t, err)
	r.eventually(func() bool { return r.holders("a", "x") == 3 })
	p.settle()
	for i := range r.servers {
		require.Equal(t, g.Token, r.fence(i, "a"))
		require.InDelta(t, 40*time.Second, r.left(i, "a"), float64(10*time.Second), "as long from now on")
	}
	after := p.RecordOf("a")
	require.Equal(t, before.Owner, after.Owner)
	require.Equal(t, before.AcquiredAt, after.AcquiredAt)
	require.Equal(t, g.Token, after.Token)
	r.servers[0].Kill()
	_, err = p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
}

// A renewal raises a node's lower token to the lease's token, and never lowers a token.
func TestTrap_T54_RedlockRenewalLowersNoFence(t *testing.T) {
	r, p := newRingOfThree(t)
	g := r.take(p, "a", "x", time.Minute)
	p.settle()
	for server, token := range []int64{g.Token - 1000, g.Token, g.Token + 1000} {
		s := r.stored(server, "a")
		s.Token = token
		r.put(server, "a", s)
	}
	_, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
	p.settle()
	require.Equal(t, []int64{g.Token, g.Token, g.Token + 1000}, []int64{r.fence(0, "a"), r.fence(1, "a"), r.fence(2, "a")})
}

// A renewal does not restore the lease on a node that has since voted for another attempt, even if that attempt has
// failed.
func TestTrap_T55_RedlockRenewalTakesNoNodeWithANewerFence(t *testing.T) {
	r, p := newRingOfThree(t)
	g := r.take(p, "a", "x", time.Minute)
	newer := func(i int) {
		r.put(i, "a", redistest.Free(g.Token+1))
	}
	newer(1)
	g, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
	p.settle()
	require.Empty(t, r.holder(1, "a"))
	newer(0)
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostTaken)
}

// A renewal whose request arrives after the lease was released on all nodes does not restore the
// lease.
func TestTrap_T55_RedlockLateRenewalDoesNotLockAfterTheRelease(t *testing.T) {
	r, p := newRingOfThree(t)
	g := r.take(p, "a", "x", time.Minute)
	gate := make(chan struct{})
	for _, w := range p.wires {
		w.on(script.Relock, delayed(gate))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Renew(ctx, abstractions.RenewRequest{Name: "a", ID: "x", Token: g.Token, TTL: time.Minute, State: g.State})
	redistest.RequireUncertain(t, err)
	q := r.process()
	require.NoError(t, q.ReleaseGrant(g))
	r.eventually(func() bool { return r.holders("a", "") == 3 })
	close(gate)
	p.settle()
	require.Equal(t, 3, r.holders("a", ""))
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostGone)
}

// After a lease has run out, another claim may have held the name, on nodes that have since lost
// that claim. So the renewal extends the lease only on nodes that still hold the lease.
func TestTrap_T20_RedlockRenewalRevivesNothing(t *testing.T) {
	r, p := newRingOfThree(t)
	g := p.Obtain("a", "x", 200*time.Millisecond)
	r.eventually(func() bool { return r.holders("a", "") == 3 })
	fence := func(i int, token int64) { r.put(i, "a", redistest.Free(token)) }
	for i := range r.servers {
		fence(i, g.Token)
	}
	_, err := p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostExpired)
	r.servers[2].Kill() // so that the first two servers decide
	fence(0, g.Token+1) // a failed attempt won one node
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostExpired)
	fence(1, g.Token+1) // a majority
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostTaken)
	require.Empty(t, r.holder(0, "a")+r.holder(1, "a"))
}

// Without the state of a grant, for example after a restart of the holder, a renewal still
// extends the leases that nodes hold.
func TestRedlockRenewalWithoutState(t *testing.T) {
	r, p := newRingOfThree(t)
	q := r.process()
	g := p.Take("a", "x", time.Minute)
	g.State = nil
	g, err := q.RenewGrant(g, time.Minute)
	require.NoError(t, err)
	require.Nil(t, g.State)
	r.drop(0, "a")
	r.drop(1, "a")
	_, err = q.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostExpired)
}

// A lease is lost when a majority says so, and not before: nodes that don't answer might
// still hold the lease.
func TestTrap_T04_RedlockLostIsCertain(t *testing.T) {
	t.Parallel()
	r := newRing(t, 5, Options{})
	p := r.process()
	g := r.take(p, "a", "x", time.Minute)
	for i := range 2 { // 2 of 5 have lost the lease, 2 are dead
		r.put(i, "a", redistest.Voted(1, "y", 1, 1, 0))
	}
	r.servers[3].Kill()
	r.servers[4].Kill()
	_, err := p.RenewGrant(g, time.Minute)
	redistest.RequireUncertain(t, err)
	broken := redistest.Voted(1, "x", 1, 1, 0)
	broken.State, broken.Content = "B", broken.Content+"\nme\nwhy"
	r.put(2, "a", broken)
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireLost(t, err, abstractions.LostBroken)
}

// A frozen minority does not delay a batch, and each item is decided on its own.
func TestTrap_T66_RedlockBatchesAreDecidedByTheMajority(t *testing.T) {
	r, p := newRingOfThree(t)
	var reqs []abstractions.RenewRequest
	for i := range 600 {
		g := p.Take(fmt.Sprint("a", i), "x", time.Minute)
		reqs = append(reqs, abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: time.Minute, State: g.State})
	}
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "a7", ID: "x"}))
	_, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a300"})
	require.NoError(t, err)
	r.servers[1].Pause()
	for range 3 {
		begun := time.Now()
		results, err := p.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		require.Less(t, time.Since(begun), 5*time.Second)
		for i, result := range results {
			switch i {
			case 7:
				redistest.RequireLost(t, result.Err, abstractions.LostGone)
			case 300:
				redistest.RequireLost(t, result.Err, abstractions.LostBroken)
			default:
				require.NoError(t, result.Err)
				require.Equal(t, reqs[i].Token, result.Grant.Token)
				require.Equal(t, reqs[i].Name, result.Grant.Name)
				require.NotNil(t, result.Grant.State)
				reqs[i].State = result.Grant.State
			}
		}
	}
	r.servers[1].Resume()
	r.servers[2].Kill()
	r.awaitVoting(1)
	results, err := p.RenewBatch(t.Context(), reqs)
	require.NoError(t, err)
	redistest.RequireLost(t, results[7].Err, abstractions.LostGone)
	require.NoError(t, results[8].Err)
}

// A frozen minority does not delay a batch that needs more than one request for each node.
func TestTrap_T43_RedlockFrozenNodeDelaysNoLargeBatch(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 30 * time.Second})
	p := r.process()
	reqs := make([]abstractions.RenewRequest, batch.MaxOperations+50)
	for i := range reqs {
		g := p.Take(fmt.Sprint("n", i), fmt.Sprint("x", i), time.Minute)
		reqs[i] = abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State, TTL: time.Minute}
	}
	p.settle()
	gate := make(chan struct{})
	defer close(gate)
	p.wires[0].on(script.Relock, delayed(gate))
	for _, w := range p.wires[1:] {
		w.on(script.Relock, func(send func() error) error {
			<-time.After(2 * fastAnswer)
			return send()
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	results, err := p.RenewBatch(ctx, reqs)
	require.NoError(t, err)
	for _, one := range results {
		require.NoError(t, one.Err)
	}
	require.Less(t, time.Since(began), 20*time.Second)
}

func TestRedlockReleaseNeedsAMajority(t *testing.T) {
	r, p := newRingOfThree(t)
	g := p.Take("a", "x", time.Minute)
	p.wires[0].cut(lostRequest)
	require.NoError(t, p.ReleaseGrant(g))
	p.wires[1].cut(lostReply)
	err := p.ReleaseGrant(g)
	redistest.RequireUncertain(t, err)
	require.ErrorIs(t, err, errLostOnTheWay)
	require.ErrorContains(t, err, "server 1 of 3 ("+r.servers[0].Addr()+")")
	require.ErrorContains(t, err, "server 2 of 3")
	require.NotContains(t, err.Error(), "server 3")
}

func TestRedlockBreakNeedsAMajority(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		r := newRing(t, 3, Options{})
		p := r.process()
		g := p.Take("a", "x", time.Minute)
		r.eventually(func() bool { return r.holders("a", "x") == 3 })
		p.wires[2].cut(lostRequest)
		result, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a", IfToken: g.Token, Immediate: immediate})
		require.NoError(t, err)
		require.True(t, result.WasHeld)
		require.Equal(t, g.Token, result.Token)
		require.Equal(t, immediate, result.Remaining == 0)
		p.wires[2].cut(nil)
		_, err = p.RenewGrant(g, time.Minute)
		redistest.RequireLost(t, err, abstractions.LostBroken)
		p.wires[1].cut(lostRequest)
		p.wires[2].cut(lostRequest)
		_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "a", Immediate: immediate})
		redistest.RequireUncertain(t, err)
	}
}

// A node that voted for a failed attempt has a different token. A break compares IfToken with
// the majority's token.
func TestTrap_T63_RedlockBreakGoesByTheMajoritysToken(t *testing.T) {
	r, p := newRingOfThree(t)
	p.wires[0].cut(lostRequest)
	g := p.Take("a", "x", time.Minute)
	r.eventually(func() bool { return r.holders("a", "x") == 2 })
	p.wires[0].cut(nil)
	r.put(0, "a", redistest.Voted(g.Token+9, "y", 1, 1, 0))

	record := p.RecordOf("a")
	require.Equal(t, abstractions.FingerprintOf("x"), record.Fingerprint)
	require.Equal(t, g.Token, record.Token)
	_, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a", IfToken: g.Token + 9, Immediate: true})
	require.ErrorIs(t, err, abstractions.ErrStale)
	require.Equal(t, 2, r.holders("a", "x"))
	result, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a", IfToken: g.Token, Immediate: true})
	require.NoError(t, err)
	require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: g.Token}, result)
}

func TestRedlockInspectSaysWhatIsNotConfirmed(t *testing.T) {
	r, p := newRingOfThree(t)
	r.take(p, "a", "x", time.Minute)
	r.drop(0, "a")
	require.False(t, p.RecordOf("a").Unconfirmed)
	r.servers[1].Kill()
	record := p.RecordOf("a") // one server has the lease, one has lost it, and one does not answer
	require.True(t, record.Held)
	require.True(t, record.Unconfirmed)
	require.Equal(t, abstractions.FingerprintOf("x"), record.Fingerprint)
}

// A merged record's time left ends when a majority of nodes will be free, by the clock of the node
// that completes the majority.
func TestRedlockMergedRecords(t *testing.T) {
	r := New(threeClients(t), true, Options{Naming: script.Naming{Prefix: prefix}, MaxTTL: time.Minute})
	now := time.Now()
	record := func(id string, left time.Duration, token int64) abstractions.Record {
		return abstractions.Record{Name: "a", Held: true, Fingerprint: abstractions.FingerprintOf(id), Token: token, Now: now, ExpiresAt: now.Add(left)}
	}
	free := abstractions.Record{Name: "a", Token: 7, Now: now}
	for what, c := range map[string]struct {
		records []abstractions.Record
		left    time.Duration
		token   int64
		held    bool
		sure    bool
	}{
		"all":                     {[]abstractions.Record{record("x", 3, 9), record("x", 1, 9), record("x", 2, 9)}, 2, 9, true, true},
		"one is free":             {[]abstractions.Record{record("x", 3, 9), free, record("x", 2, 9)}, 2, 9, true, true},
		"one is dead":             {[]abstractions.Record{record("x", 3, 9), record("x", 2, 9)}, 3, 9, true, true},
		"one has another token":   {[]abstractions.Record{record("x", 3, 11), record("x", 3, 9), record("x", 3, 9)}, 3, 9, true, true},
		"or a lower one":          {[]abstractions.Record{record("x", 3, 8), record("x", 3, 9), record("x", 3, 9)}, 3, 9, true, true},
		"one of three":            {[]abstractions.Record{record("x", 3, 9), free, free}, 0, 7, false, true},
		"one of two":              {[]abstractions.Record{record("x", 3, 9), free}, 3, 9, true, false},
		"three claims":            {[]abstractions.Record{record("x", 3, 9), record("y", 3, 11), record("z", 3, 10)}, 0, 10, false, true},
		"two of them by majority": {[]abstractions.Record{record("x", 3, 9), record("y", 2, 11), record("y", 1, 11)}, 1, 11, true, true},
	} {
		got := r.record("a", c.records)
		require.Equal(t, c.held, got.Held, what)
		require.Equal(t, c.token, got.Token, what)
		require.Equal(t, !c.sure, got.Unconfirmed, what)
		if c.held {
			left, known := got.Remaining()
			require.True(t, known, what)
			require.Equal(t, c.left, left, what)
		}
	}
}

func threeClients(t *testing.T) (clients []redis.UniversalClient) {
	for range 3 {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { client.Close() })
		clients = append(clients, client)
	}
	return clients
}

// A renewal changes the metadata on the claim's nodes, and on nodes on which it restores the lease.
// So does the renewal of an adopted claim, which lacks the grant's state.
func TestRedlockRenewalChangesMetadata(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 15 * time.Second}) // requests to the last server are not withdrawn on a busy machine
	p := r.process()
	g := r.take(p, "a", "x", time.Minute)
	p.settle()
	renew := func(state any, metadata map[string]string) abstractions.Grant {
		g, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "a", ID: "x", Token: g.Token, TTL: 40 * time.Second, State: state, Metadata: metadata})
		require.NoError(t, err)
		p.settle()
		return g
	}
	is := func(server int, want string) {
		t.Helper()
		r.eventually(func() bool { // the renewal does not wait for the last server
			s := r.stored(server, "a")
			return strings.HasPrefix(s.Details, "40000 ") && s.Content == fmt.Sprintf("owner of x\n{\"k\":%q}", want)
		}, "%s at server %d", want, server)
	}
	drop := func(server int) { r.drop(server, "a") }

	drop(0)
	g = renew(g.State, map[string]string{"k": "1"})
	is(0, "1")
	is(1, "1")
	drop(0)
	g = renew(g.State, nil)
	is(0, "1")
	is(1, "1")
	renew(nil, map[string]string{"k": "2"})
	p.wires[2].cut(lostRequest)
	renew(nil, map[string]string{"k": "3"})
	p.wires[2].cut(nil)
	is(1, "3")
	is(2, "2")
	require.Equal(t, "3", p.RecordOf("a").Metadata["k"], "as a majority has it")
}

// T84: even a node that has not received the claim's token refuses a renewal with another token,
// unless the renewal's state proves that the token belongs to the claim.
func TestTrap_T84_RedlockRefusesARenewalWithAnotherToken(t *testing.T) {
	r, p := newRingOfThree(t)
	g := r.take(p, "a", "x", time.Minute)
	p.settle()
	for _, state := range []any{nil, g.State} {
		for token, reason := range map[int64]abstractions.LostReason{g.Token + 1: abstractions.LostGone, g.Token - 1: abstractions.LostTaken} {
			_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "a", ID: "x", Token: token, TTL: time.Minute, State: state})
			redistest.RequireLost(t, err, reason)
		}
	}
	g.State = nil
	_, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
}

// Successive leases of one claim are distinguished by the token that the node had before each
// lease, however the node got the lease.
func TestTrap_T20_RedlockRenewalOfAnEarlierLeaseIsRefused(t *testing.T) {
	r, p := newRingOfThree(t)
	k := r.keys("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	renew := func(token int64) error {
		op := k.Relock(&abstractions.RenewRequest{ID: "x", Token: token, TTL: time.Minute}, "me\n", 9)
		reply := p.redlock.nodes[0].Do(ctx, op)
		require.NoError(t, reply.Err)
		return reply.Renewed()
	}
	const before = int64(1e15)
	for what, get := range map[string]func(){
		"voted": func() {
			op := k.Vote(script.Claim{ID: "x", TTL: time.Minute}, 9, 0)
			require.NoError(t, p.redlock.nodes[0].Do(ctx, op).Err)
		},
		"locked again": func() { require.NoError(t, renew(before+5)) },
	} {
		for _, c := range []struct {
			token int64
			lost  bool
		}{{before - 1, true}, {before, true}, {before + 1, false}, {before + 9, false}} {
			r.put(0, "a", redistest.Free(before))
			get()
			require.Equal(t, "x", r.holder(0, "a"))
			had := r.fence(0, "a")
			err := renew(c.token)
			require.Equal(t, c.lost, err != nil, "%s: %d: %v", what, c.token, err)
			require.Equal(t, max(had, c.token), r.fence(0, "a"))
		}
	}
}

// A merged record has the metadata of most servers, even if the other servers answer earlier. If no
// two servers agree, it has the metadata of the latest renewal.
func TestRedlockMetadataAreTheMajoritys(t *testing.T) {
	record := func(value string) abstractions.Record {
		return abstractions.Record{Metadata: map[string]string{"k": value}}
	}
	for values, want := range map[[3]string]string{{"old", "new", "new"}: "new", {"new", "old", "new"}: "new", {"new", "new", "old"}: "new", {"1", "2", "3"}: "3"} {
		records := []abstractions.Record{record(values[0]), record(values[1]), record(values[2])}
		require.Equal(t, want, commonMetadata(records)["k"], values)
	}
	require.Equal(t, "new", commonMetadata([]abstractions.Record{record("old"), record("new")})["k"])
}

// A claim is requested with a long TTL, and later with a short TTL. A node that stores
// the token of the second attempt keeps the longer expiry.
func TestTrap_T17_RedlockNodeKeepsALeaseThatIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{MaxTTL: 10 * time.Hour})
	p := r.process()
	k := r.keys("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := redistest.Voted(20, "x", 7, 7, 10)
	s.Till = time.Now().Add(5 * time.Hour).UnixMilli()
	require.NoError(t, r.admins[0].Set(ctx, k.Name, s.String(), 6*time.Hour).Err())
	op := k.Confirm(script.Claim{ID: "x", TTL: time.Minute}, 30, 7)
	require.NoError(t, p.redlock.nodes[0].Do(ctx, op).Done())
	require.EqualValues(t, 30, r.fence(0, "a"))
	kept, err := r.admins[0].PTTL(ctx, k.Name).Result()
	require.NoError(t, err)
	require.GreaterOrEqual(t, kept, r.left(0, "a")-time.Second)
}
