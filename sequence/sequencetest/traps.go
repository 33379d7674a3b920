package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A commit that passed its guard in time is still in its transaction when the lease runs out.
// A claim at that moment waits for the commit, checks the number a second time, and finds nothing
// to claim.
func trapS1[Tx any](f *fixture[Tx]) { commitAgainstClaim(f, f.store) }

// trapS9 is like trapS1, but another process claims the number, so a lock in this process's memory does not help.
func trapS9[Tx any](f *fixture[Tx]) { commitAgainstClaim(f, f.db.Open(f.T)) }

func commitAgainstClaim[Tx any](f *fixture[Tx], other sequence.Store[Tx]) {
	e := f.lease("op", f.unit/2)
	claimed := make(chan bool, 1)
	_, err := f.store.Commit(f.ctx, commitOf(e, "x"), func(ctx context.Context, tx Tx, _ sequence.Entry) error {
		sleep(f.unit)
		go func() {
			_, ok, err := other.Claim(f.ctx, seqstore.ClaimRequest{Stream: stream, Owner: "cleaner", Duration: time.Minute})
			assert.NoError(f, err)
			claimed <- ok
		}()
		sleep(f.unit / 2) // the claim has found the number, and waits
		return f.db.Insert(ctx, tx, "x")
	})
	require.NoError(f, err)
	require.False(f, <-claimed, "a number that was committed was claimed")
	require.Equal(f, sequence.Committed, f.find("op").State)
	require.Equal(f, []string{"x"}, f.db.Rows(f.T))
}

// A claim doesn't skip a lower number whose row is locked by another transaction.
func trapS2[Tx any](f *fixture[Tx]) {
	first := f.lease("first", f.unit/2)
	f.lease("second", time.Millisecond)
	got := make(chan sequence.Entry, 1)
	_, err := f.store.Commit(f.ctx, commitOf(first, "x"), func(context.Context, Tx, sequence.Entry) error {
		sleep(f.unit)
		go func() {
			defer close(got)
			e, ok, err := f.store.Claim(f.ctx, seqstore.ClaimRequest{Stream: stream, Owner: "cleaner", Duration: time.Minute})
			if assert.NoError(f, err) && ok {
				got <- e
			}
		}()
		sleep(f.unit / 2)
		select {
		case e := <-got:
			return fmt.Errorf("number %d was claimed while 1 was open", e.Seq)
		default:
			return nil
		}
	})
	require.NoError(f, err)
	require.Equal(f, int64(2), (<-got).Seq, "then it is the second's turn")

	f.leaseExpired("third")
	f.leaseExpired("fourth")
	_, ok := f.tryClaim(time.Minute)
	require.False(f, ok, "no claim passes a live claim")
	second := f.find("second")
	f.resolve(second, sequence.OutcomeGap, "")
	require.Equal(f, int64(3), f.claim(time.Minute).Seq)
}

// A cleaner whose claim has lapsed is refused before it uses up a number.
func trapS3[Tx any](f *fixture[Tx]) {
	f.leaseExpired("op")
	stale := f.claim(f.unit)
	sleep(f.unit + f.unit/2)
	require.Equal(f, int64(1), f.status().Last)
	_, err := f.store.Resolve(f.ctx, resolution(stale, sequence.OutcomeRecovered, "stale"), f.insert("stale"))
	f.requireLate(err, sequence.Recovering)
	fresh := f.claim(time.Minute)
	require.Equal(f, stale.Token+1, fresh.Token)
	_, err = f.store.Resolve(f.ctx, resolution(stale, sequence.OutcomeRecovered, "stale"), f.insert("stale"))
	f.requireLate(err, sequence.Recovering)
	f.resolve(fresh, sequence.OutcomeRecovered, "fresh")
	for _, outcome := range []sequence.Outcome{sequence.OutcomeRecovered, sequence.OutcomeGap, seqstore.OutcomeFailed} {
		_, err = f.store.Resolve(f.ctx, resolution(stale, outcome, "stale"), nil)
		require.Equal(f, int64(2), f.lateError(err, sequence.Recovered).Entry.ReplacedBy)
	}
	require.Equal(f, int64(2), f.status().Last, "a refused cleaner took a number")
	require.Equal(f, []string{"fresh"}, f.db.Rows(f.T))
}

// A recovery that fails leaves the number to the next attempt. After the last attempt the number is
// a gap.
func trapS4[Tx any](f *fixture[Tx]) {
	f.leaseExpired("op")
	for attempt := range 3 {
		var claim sequence.Entry
		f.await(func() (ok bool) {
			claim, ok = f.tryClaim(time.Minute)
			return ok
		})
		require.Equal(f, attempt, claim.Attempts)
		req := resolution(claim, seqstore.OutcomeFailed, "no luck")
		req.RetryAfter, req.MaxAttempts = time.Millisecond, 3
		f.resolveAs(req, nil)
		require.Equal(f, "no luck", f.find("op").LastError)
		if attempt < 2 {
			require.Equal(f, int64(0), f.status().Watermark, "the number is accounted for")
		}
	}
	f.leaseExpired("later")
	claim := f.claim(time.Minute)
	req := resolution(claim, seqstore.OutcomeFailed, "no luck")
	req.RetryAfter = time.Hour
	f.resolveAs(req, nil)
	_, ok := f.tryClaim(time.Minute)
	require.False(f, ok, "not before the pause has passed")
	found := f.find("op")
	require.Equal(f, sequence.Gap, found.State)
	require.Equal(f, sequence.ReasonRecoveryFailed, found.Reason)
	require.Equal(f, "no luck", found.LastError)
	require.Equal(f, int64(1), f.status().Watermark)
}

// Every way of closing a number wakes its waiters.
func trapS5[Tx any](f *fixture[Tx]) {
	other := f.db.Open(f.T)
	closings := map[string]func(op string){
		"commit":    func(op string) { f.commit(f.lease(op, time.Minute), op) },
		"release":   func(op string) { f.release(f.lease(op, time.Minute)) },
		"gap":       func(op string) { f.leaseExpired(op); f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "") },
		"recovered": func(op string) { f.leaseExpired(op); f.resolve(f.claim(time.Minute), sequence.OutcomeRecovered, op) },
		"filled": func(op string) {
			e := f.lease(op, time.Minute)
			f.release(e)
			require.NoError(f, f.tryFill(sequence.FillRequest{Stream: stream, Seq: e.Seq, Op: op}, nil))
		},
	}
	for op, closing := range closings {
		ctx, cancel := context.WithCancel(f.ctx)
		wakeups, err := f.store.Watch(ctx, stream)
		require.NoError(f, err)
		remote, err := other.Watch(ctx, stream)
		require.NoError(f, err)
		closing(op)
		f.awaitWakeup(wakeups, op)
		if notifier, ok := f.db.(interface{ HintsOtherProcesses() bool }); ok && notifier.HintsOtherProcesses() {
			f.awaitWakeup(remote, op+" by another process")
		}
		cancel()
	}
}

func (f *fixture[Tx]) awaitWakeup(wakeups <-chan struct{}, what string) {
	f.Helper()
	select {
	case <-wakeups:
	case <-time.After(20 * time.Second):
		require.Fail(f, "no wake-up by: "+what)
	}
}

// A number that waits longer than its lease for a lower number is still held.
func trapS6[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	slow := f.lease("slow", time.Minute)
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "waiting", Duration: 6 * f.unit})
	require.NoError(f, err)
	passed := make(chan error, 1)
	go func() { passed <- n.Wait(f.ctx) }()
	sleep(8 * f.unit)
	require.NoError(f, n.Err(), "the wait has eaten the lease")
	select {
	case err := <-passed:
		require.Fail(f, "it did not wait", err)
	default:
	}
	f.commit(slow, "slow")
	require.NoError(f, <-passed)
	require.NoError(f, n.Commit(f.ctx, []byte("x"), nil))
	require.Equal(f, int64(2), f.status().Watermark)
}

// Durations are doubled only once, even if several processes enter recovery mode.
func trapS7[Tx any](f *fixture[Tx]) {
	var group sync.WaitGroup
	entered := make(chan bool, 8)
	for range cap(entered) {
		store := f.db.Open(f.T)
		group.Go(func() {
			first, err := store.EnterRecovery(f.ctx, stream, 4*f.unit)
			assert.NoError(f, err)
			entered <- first
		})
	}
	group.Wait()
	firsts := 0
	for range cap(entered) {
		if <-entered {
			firsts++
		}
	}
	require.Equal(f, 1, firsts, "one enters, the others find it so")
	e := f.lease("op", time.Minute)
	require.Equal(f, 2*time.Minute, e.ExpiresAt.Sub(e.LeasedAt).Round(time.Second))
	granted, err := f.store.Renew(f.ctx, seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Duration: 8 * time.Minute})
	require.NoError(f, err)
	require.Equal(f, seqstore.MaxRecoveryDuration, granted)
	require.False(f, f.status().RecoveryUntil.IsZero())
	sleep(6 * f.unit)
	require.True(f, f.status().RecoveryUntil.IsZero(), "it ends by itself")
	e = f.lease("normal", time.Minute)
	require.Equal(f, time.Minute, e.ExpiresAt.Sub(e.LeasedAt).Round(time.Second))
	_, err = f.store.EnterRecovery(f.ctx, stream, time.Hour)
	require.NoError(f, err)
	left, err := f.store.LeaveRecovery(f.ctx, stream)
	require.NoError(f, err)
	require.True(f, left)
	left, err = f.store.LeaveRecovery(f.ctx, stream)
	require.NoError(f, err)
	require.False(f, left)
}

// A claim lasts exactly until the end of its last extension, and the next claim fences the old
// holder.
func trapS10[Tx any](f *fixture[Tx]) {
	f.leaseExpired("op")
	claim := f.claim(f.unit)
	extend := seqstore.RenewRequest{Stream: stream, Seq: claim.Seq, Token: claim.Token, Duration: 3 * f.unit}
	require.NoError(f, f.store.ExtendClaim(f.ctx, extend))
	sleep(f.unit + f.unit/2)
	_, ok := f.tryClaim(time.Minute)
	require.False(f, ok, "it was extended")
	sleep(3 * f.unit)
	f.requireLate(f.store.ExtendClaim(f.ctx, extend), sequence.Recovering)
	next := f.claim(time.Minute)
	require.Equal(f, claim.Token+1, next.Token)
	for _, outcome := range []sequence.Outcome{sequence.OutcomeGap, seqstore.OutcomeFailed, sequence.OutcomeRecovered} {
		_, err := f.store.Resolve(f.ctx, resolution(claim, outcome, "stale"), nil)
		f.requireLate(err, sequence.Recovering)
	}
	f.resolve(next, sequence.OutcomeGap, "")
}

// Entries up to the seal do not change after they were read.
func trapS11[Tx any](f *fixture[Tx]) {
	released := f.lease("released", time.Minute)
	f.commit(f.lease("committed", time.Minute), "x")
	f.release(released)
	require.Equal(f, int64(2), f.seal(0))
	before := f.read(true)
	f.requireLate(f.tryFill(sequence.FillRequest{Stream: stream, Seq: released.Seq, Op: "released", Payload: []byte("late")}, f.insert("late")), sequence.Sealed)
	f.requireLate(f.tryCommit(released, "late"), sequence.Sealed)
	_, ok := f.tryClaim(time.Minute)
	require.False(f, ok)
	require.Equal(f, before, f.read(true))
	require.Equal(f, []string{"x"}, f.db.Rows(f.T))
	open := f.lease("open", time.Minute)
	f.release(f.lease("gap", time.Minute))
	_, err := f.store.Seal(f.ctx, stream, 4)
	require.ErrorIs(f, err, sequence.ErrOpen, "an open number can't be sealed over")
	f.commit(open, "y")
	f.seal(1)
	require.Equal(f, int64(2), f.status().Sealed, "the seal never goes back")
}

func trapS12[Tx any](f *fixture[Tx]) {
	e := f.leaseExpired("op")
	_, err := f.store.Renew(f.ctx, seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Duration: time.Minute})
	require.True(f, f.lateError(err, sequence.Leased).Expired)
	require.Equal(f, 1, f.status().Expired)
	require.Equal(f, e.Seq, f.claim(time.Minute).Seq)
	_, err = f.store.Renew(f.ctx, seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: e.Token + 1, Duration: time.Minute})
	f.requireLate(err, sequence.Recovering)
}

func trapS13[Tx any](f *fixture[Tx]) {
	f.lease("a", time.Minute)
	f.lease("b", time.Minute)
	later := f.db.Open(f.T)
	require.NoError(f, later.CreateStream(f.ctx, stream))
	e, err := later.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: "c", Duration: time.Minute})
	require.NoError(f, err)
	require.Equal(f, int64(3), e.Seq)
}

func trapS14[Tx any](f *fixture[Tx]) {
	f.leaseExpired("lost")
	between := f.lease("between", time.Minute)
	claim := f.claim(time.Minute)
	by := f.resolve(claim, sequence.OutcomeRecovered, "x")
	require.Greater(f, by.Seq, between.Seq, "recovered work keeps no place")
	require.Equal(f, claim.Seq, by.Origin)
	require.Equal(f, "lost", by.Op)
	require.Equal(f, sequence.Committed, by.State)
	old := f.find("lost")
	require.Equal(f, sequence.Recovered, old.State)
	require.Equal(f, by.Seq, old.ReplacedBy)
	again, err := f.store.Resolve(f.ctx, resolution(claim, sequence.OutcomeRecovered, "x"), func(context.Context, Tx, sequence.Entry) error { return errors.New("called again") })
	require.NoError(f, err, "the reply may have been lost")
	require.Equal(f, by.Seq, again.Seq)
	require.Equal(f, []string{"x"}, f.db.Rows(f.T))
	f.commit(between, "y")
	entries := f.read(false)
	require.Equal(f, []int64{1, 2, 3}, seqs(entries))
	require.Equal(f, claim.Seq, entries[2].Origin)
}
