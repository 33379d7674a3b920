package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func numbersHaveOneOrder[Tx any](f *fixture[Tx]) {
	first, second := f.lease("a", time.Minute), f.lease("b", time.Minute)
	require.Equal(f, []int64{1, 2}, seqs([]sequence.Entry{first, second}))
	require.Equal(f, sequence.Leased, first.State)
	require.Equal(f, int64(1), first.Token)
	require.Equal(f, time.Minute, first.ExpiresAt.Sub(first.LeasedAt).Round(time.Second))
	require.NoError(f, f.store.CreateStream(f.ctx, "other"))
	e, err := f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: "other", Op: "a", Duration: time.Minute})
	require.NoError(f, err)
	require.Equal(f, int64(1), e.Seq, "streams count by themselves")
	require.NoError(f, f.store.CreateStream(f.ctx, stream), "creating a stream again does nothing")
	require.Equal(f, int64(3), f.lease("c", time.Minute).Seq)
	s := f.status()
	require.Equal(f, int64(3), s.Last)
	require.Equal(f, 3, s.Open)
	require.Equal(f, int64(0), s.Watermark)
}

func parallelWritersLeaveNoHole[Tx any](f *fixture[Tx]) {
	const writers, each = 8, 12
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				op := fmt.Sprintf("%d-%d", w, i)
				e, err := f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: op, Duration: time.Minute})
				if assert.NoError(f, err) && i%5 == 4 {
					assert.NoError(f, f.store.Release(f.ctx, seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: e.Token}))
				} else {
					_, err = f.store.Commit(f.ctx, commitOf(e, op), f.insert(op))
					assert.NoError(f, err)
				}
			}
		})
	}
	group.Wait()
	entries := f.read(false)
	require.Len(f, entries, writers*each)
	var committed []string
	for i, e := range entries {
		require.Equal(f, int64(i+1), e.Seq)
		require.False(f, e.State.Open())
		if e.State == sequence.Committed {
			committed = append(committed, string(e.Payload))
		}
	}
	require.ElementsMatch(f, committed, f.db.Rows(f.T), "each commit has its own row, and no row is without one")
}

func anOperationHasOneNumber[Tx any](f *fixture[Tx]) {
	first := f.lease("op", f.unit)
	again := f.lease("op", time.Minute)
	require.Equal(f, first.Seq, again.Seq)
	require.Equal(f, first.Token, again.Token)
	require.True(f, again.ExpiresAt.After(first.ExpiresAt), "it is extended")
	shorter := f.lease("op", time.Millisecond)
	require.Equal(f, again.ExpiresAt, shorter.ExpiresAt, "and never shortened")
	require.Equal(f, int64(1), f.status().Last)
	require.Equal(f, int64(2), f.lease("other", time.Minute).Seq, "a repeated request takes no number")

	f.commit(first, "x")
	_, err := f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: "op", Duration: time.Minute})
	ended := (*sequence.EndedError)(nil)
	require.ErrorAs(f, err, &ended)
	require.ErrorIs(f, err, sequence.ErrEnded)
	require.Equal(f, sequence.Committed, ended.Entry.State)
	f.leaseExpired("gone")
	_, err = f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: "gone", Duration: time.Minute})
	require.ErrorIs(f, err, sequence.ErrEnded, "what has run out is not revived")
	_, err = f.store.Find(f.ctx, stream, "never")
	require.ErrorIs(f, err, sequence.ErrNotFound)
}

func aCommitTakesTheCallersWriteAlong[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	refused := errors.New("the caller's own")
	_, err := f.store.Commit(f.ctx, commitOf(e, "x"), func(ctx context.Context, tx Tx, e sequence.Entry) error {
		return errors.Join(f.db.Insert(ctx, tx, "never"), refused)
	})
	require.ErrorIs(f, err, refused)
	require.Empty(f, f.db.Rows(f.T))
	require.Equal(f, sequence.Leased, f.find("op").State)

	done, err := f.store.Commit(f.ctx, commitOf(e, "x"), func(ctx context.Context, tx Tx, e sequence.Entry) error {
		return f.db.Insert(ctx, tx, fmt.Sprintf("%d %s %s", e.Seq, e.Op, e.Payload))
	})
	require.NoError(f, err)
	require.Equal(f, []string{"1 op x"}, f.db.Rows(f.T))
	require.Equal(f, sequence.Committed, done.State)
	found := f.find("op")
	require.Equal(f, []byte("x"), found.Payload)
	require.False(f, found.ClosedAt.IsZero())
	require.Equal(f, "kind", found.Kind)
	require.Equal(f, "tester", found.Owner)
}

func aCommitCanBeRepeated[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	f.commit(e, "x")
	_, err := f.store.Commit(f.ctx, commitOf(e, "x"), func(context.Context, Tx, sequence.Entry) error { return errors.New("called again") })
	require.NoError(f, err, "the reply may have been lost")
	_, err = f.store.Commit(f.ctx, commitOf(e, "y"), nil)
	require.ErrorIs(f, err, sequence.ErrOtherPayload)
	require.ErrorContains(f, err, "lease another number")
	require.Equal(f, []byte("x"), f.find("op").Payload)
	empty := f.lease("empty", time.Minute)
	f.commit(empty, "")
	_, err = f.store.Commit(f.ctx, commitOf(empty, ""), nil)
	require.NoError(f, err, "an empty payload is one, too")
}

func aCommitInOrderWaitsForLowerNumbers[Tx any](f *fixture[Tx]) {
	first, second := f.lease("a", time.Minute), f.lease("b", time.Minute)
	req := commitOf(second, "b")
	req.InOrder = true
	_, err := f.store.Commit(f.ctx, req, nil)
	open := (*sequence.OpenError)(nil)
	require.ErrorAs(f, err, &open)
	require.Equal(f, int64(1), open.Lowest)
	f.commit(first, "a")
	_, err = f.store.Commit(f.ctx, req, nil)
	require.NoError(f, err)
}

// Either the commit and the lease of the next number both succeed, or only the commit, or neither.
func aCommitLeasesTheNextNumber[Tx any](f *fixture[Tx]) {
	var rows []string
	own := errors.New("the caller's own")
	for _, writes := range []bool{false, true} {
		commit := func(e sequence.Entry, op string, inOrder bool) (done, leased sequence.Entry, err error) {
			req, write := commitOf(e, "of "+e.Op), sequence.Write[Tx](nil)
			if req.InOrder = inOrder; writes {
				write = f.insert(e.Op)
			}
			return f.store.CommitAndLease(f.ctx, req, seqstore.LeaseRequest{Stream: stream, Op: op, Kind: "kind", Owner: "tester", Duration: time.Minute}, write)
		}
		id := func(op string) string { return fmt.Sprint(op, " ", writes) }
		first := f.lease(id("first"), time.Minute)
		done, second, err := commit(first, id("second"), false)
		require.NoError(f, err)
		require.Equal(f, f.find(first.Op).Payload, done.Payload)
		require.Equal(f, sequence.Committed, f.find(first.Op).State)
		if !writes && second.Seq == 0 { // a store need not lease a number if that is not cheaper
			second = f.lease(id("second"), time.Minute)
		}
		require.Equal(f, first.Seq+1, second.Seq)
		require.Equal(f, sequence.Leased, second.State)
		found := f.find(second.Op)
		found.Payload, found.Work.Data = nil, nil
		require.Equal(f, found, second)
		require.Equal(f, time.Minute, second.ExpiresAt.Sub(second.LeasedAt).Round(time.Second))

		_, again, err := commit(first, id("other"), false)
		require.NoError(f, err, "the reply may have been lost")
		require.Zero(f, again, "it was made before")
		_, has, err := commit(second, first.Op, true)
		require.NoError(f, err)
		require.Zero(f, has, "the operation has a number")
		require.Equal(f, sequence.Committed, f.find(second.Op).State)
		if writes {
			rows = append(rows, first.Op, second.Op)
		}

		expired, lower, held := f.leaseExpired(id("expired")), f.lease(id("lower"), time.Minute), f.lease(id("held"), time.Minute)
		_, none, err := commit(expired, id("other"), false)
		f.requireLate(err, sequence.Leased)
		require.Zero(f, none)
		_, none, err = commit(held, id("other"), true)
		require.ErrorIs(f, err, sequence.ErrOpen)
		require.Zero(f, none)
		_, none, err = f.store.CommitAndLease(f.ctx, commitOf(held, "x"), seqstore.LeaseRequest{Stream: stream, Op: id("other"), Duration: time.Minute},
			func(context.Context, Tx, sequence.Entry) error { return own })
		require.ErrorIs(f, err, own)
		require.Zero(f, none)
		_, _, err = f.store.CommitAndLease(f.ctx, commitOf(held, "x"), seqstore.LeaseRequest{Stream: stream, Duration: time.Minute}, nil)
		require.ErrorIs(f, err, leasing.ErrInvalid)
		require.Equal(f, sequence.Leased, f.find(held.Op).State)
		require.Equal(f, held.Seq, f.status().Last, "a refused commit took a number")
		f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "")
		f.release(lower)
		f.release(held)
	}
	require.ElementsMatch(f, rows, f.db.Rows(f.T))
	_, err := f.store.EnterRecovery(f.ctx, stream, time.Minute)
	require.NoError(f, err)
	_, leased, err := f.store.CommitAndLease(f.ctx, commitOf(f.lease("before", time.Minute), "x"), seqstore.LeaseRequest{Stream: stream, Op: "doubled", Duration: time.Minute},
		func(context.Context, Tx, sequence.Entry) error { return nil })
	require.NoError(f, err)
	require.Equal(f, 2*time.Minute, leased.ExpiresAt.Sub(leased.LeasedAt).Round(time.Second))
}

func aLateCommitChangesNothing[Tx any](f *fixture[Tx]) {
	e := f.leaseExpired("op")
	err := f.tryCommit(e, "x")
	require.True(f, f.lateError(err, sequence.Leased).Expired)
	require.ErrorContains(f, err, "run out")
	claim := f.claim(time.Minute)
	f.requireLate(f.tryCommit(e, "x"), sequence.Recovering)
	f.requireLate(f.tryCommit(claim, "x"), sequence.Recovering)
	f.resolve(claim, sequence.OutcomeGap, "")
	f.requireLate(f.tryCommit(e, "x"), sequence.Gap)
	require.Empty(f, f.db.Rows(f.T))
	require.Equal(f, sequence.ReasonExpired, f.find("op").Reason)
}

func aRenewalExtendsALease[Tx any](f *fixture[Tx]) {
	e := f.lease("op", f.unit)
	renew := seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Duration: time.Minute}
	granted, err := f.store.Renew(f.ctx, renew)
	require.NoError(f, err)
	require.Equal(f, time.Minute, granted)
	sleep(f.unit + f.unit/2)
	_, ok := f.tryClaim(time.Minute)
	require.False(f, ok, "it was renewed")
	found := f.find("op")
	require.Equal(f, 1, found.Renewals)
	require.True(f, found.ExpiresAt.After(e.ExpiresAt))
	renew.Token++
	_, err = f.store.Renew(f.ctx, renew)
	f.requireLate(err, sequence.Leased)
	f.commit(e, "x")
	renew.Token--
	_, err = f.store.Renew(f.ctx, renew)
	f.requireLate(err, sequence.Committed)
}

// The holder may trust the longer duration that recovery mode granted, even after a later renewal whose
// reply was lost.
func aRenewalNeverShortensALease[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	renew := seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Duration: time.Minute}
	_, err := f.store.EnterRecovery(f.ctx, stream, time.Minute)
	require.NoError(f, err)
	granted, err := f.store.Renew(f.ctx, renew)
	require.NoError(f, err)
	require.Equal(f, 2*time.Minute, granted)
	doubled := f.find("op").ExpiresAt
	_, err = f.store.LeaveRecovery(f.ctx, stream)
	require.NoError(f, err)
	granted, err = f.store.Renew(f.ctx, renew)
	require.NoError(f, err)
	require.Equal(f, time.Minute, granted)
	require.Equal(f, doubled, f.find("op").ExpiresAt)
}

func aReleaseMakesAGap[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	f.release(sequence.Entry{Seq: e.Seq, Token: e.Token + 1})
	require.Equal(f, sequence.Leased, f.find("op").State, "another token")
	f.release(e)
	f.release(e)
	found := f.find("op")
	require.Equal(f, sequence.Gap, found.State)
	require.Equal(f, sequence.ReasonReleased, found.Reason)
	require.Equal(f, int64(1), f.status().Watermark)
	require.Equal(f, 1, f.status().Gaps)
	committed := f.lease("other", time.Minute)
	f.commit(committed, "x")
	f.release(committed)
	require.Equal(f, sequence.Committed, f.find("other").State)
	f.release(sequence.Entry{Seq: 99, Token: 1})
}

func workIsKept[Tx any](f *fixture[Tx]) {
	e := f.lease("op", 3*f.unit)
	save := func(token int64, phase sequence.Phase, data string) error {
		return f.store.Save(f.ctx, seqstore.SaveRequest{Stream: stream, Seq: e.Seq, Token: token, Work: sequence.Work{Phase: phase, Data: []byte(data)}})
	}
	require.NoError(f, save(e.Token, sequence.Partial, "1"))
	require.NoError(f, save(e.Token, sequence.Partial, "2"))
	f.requireLate(save(e.Token+1, sequence.Partial, "3"), sequence.Leased)
	require.Equal(f, sequence.Work{Phase: sequence.Partial, Data: []byte("2")}, f.find("op").Work)
	sleep(4 * f.unit)
	require.NoError(f, save(e.Token, sequence.Partial, "4"), "it has run out, and is unclaimed")
	claim := f.claim(time.Minute)
	require.Equal(f, "4", string(claim.Work.Data))
	f.requireLate(save(e.Token, sequence.Partial, "5"), sequence.Recovering)
	require.NoError(f, save(e.Token, sequence.Completed, "done"), "what is finished may still come")
	require.NoError(f, save(e.Token, sequence.Completed, "done"))
	f.requireLate(save(e.Token, sequence.Completed, "other"), sequence.Recovering)
	f.requireLate(save(e.Token, sequence.Partial, "6"), sequence.Recovering)
	require.Equal(f, sequence.Work{Phase: sequence.Completed, Data: []byte("done")}, f.find("op").Work)
	f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "")
	other := f.lease("empty", time.Minute)
	f.release(other)
	e = other
	f.requireLate(save(e.Token, sequence.Completed, "done"), sequence.Gap)
}

func aGapIsFilledByItsOperationAlone[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	fill := sequence.FillRequest{Stream: stream, Seq: e.Seq, Op: "op", Payload: []byte("x")}
	f.requireLate(f.tryFill(fill, f.insert("x")), sequence.Leased)
	f.release(e)
	other := fill
	other.Op = "another"
	f.requireLate(f.tryFill(other, f.insert("x")), sequence.Gap)
	filled, err := f.store.Fill(f.ctx, fill, f.insert("x"))
	require.NoError(f, err)
	require.Equal(f, sequence.Filled, filled.State)
	require.NoError(f, f.tryFill(fill, f.insert("again")), "the reply may have been lost")
	fill.Payload = []byte("y")
	require.ErrorIs(f, f.tryFill(fill, nil), sequence.ErrOtherPayload)
	found := f.find("op")
	require.Equal(f, []byte("x"), found.Payload)
	require.False(f, found.FilledAt.IsZero())
	require.Equal(f, sequence.ReasonReleased, found.Reason, "what it was stays known")
	require.Equal(f, []string{"x"}, f.db.Rows(f.T))
	require.ErrorIs(f, f.tryFill(sequence.FillRequest{Stream: stream, Seq: 7, Op: "op"}, nil), sequence.ErrNotFound)
}

func aReaderStopsAtTheWatermarkAndAtTheSeal[Tx any](f *fixture[Tx]) {
	for i := range 5 {
		e := f.lease(fmt.Sprint(i), time.Minute)
		if i == 1 {
			f.release(e)
		} else if i != 3 {
			f.commit(e, fmt.Sprint(i))
		}
	}
	page, err := f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 100})
	require.NoError(f, err)
	require.Equal(f, int64(3), page.Through, "4 is open")
	require.Equal(f, []int64{1, 2, 3}, seqs(page.Entries))
	require.Equal(f, sequence.Gap, page.Entries[1].State, "gaps are read, too")
	page, err = f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, From: 2, Limit: 1})
	require.NoError(f, err)
	require.Equal(f, []int64{2}, seqs(page.Entries))
	require.Empty(f, f.read(true))
	require.Equal(f, int64(2), f.seal(2))
	require.Equal(f, []int64{1, 2}, seqs(f.read(true)))
	require.Equal(f, sequence.Sealed, f.read(true)[1].State)
	page, err = f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 9, States: []sequence.State{sequence.Leased, sequence.Sealed}})
	require.NoError(f, err)
	require.Equal(f, []int64{2, 4}, seqs(page.Entries))
	lowest, err := f.store.LowestOpen(f.ctx, stream)
	require.NoError(f, err)
	require.Equal(f, int64(4), lowest)
}

func forgettingStopsAtTheSeal[Tx any](f *fixture[Tx]) {
	for i := range 6 {
		f.commit(f.lease(fmt.Sprint(i), time.Minute), fmt.Sprint(i))
	}
	f.seal(4)
	require.Equal(f, 3, f.forget(100, 3))
	require.Equal(f, 1, f.forget(100, 3))
	require.Equal(f, []int64{5, 6}, seqs(f.read(false)))
	require.Equal(f, int64(7), f.lease("next", time.Minute).Seq)
	require.Equal(f, int64(4), f.status().Sealed)
}

func theManualQueueKeepsWork[Tx any](f *fixture[Tx]) {
	item := sequence.ManualItem{Stream: stream, Seq: 3, Op: "op", Payload: []byte("x"), Reason: "why"}
	require.NoError(f, f.store.Enqueue(f.ctx, item))
	require.NoError(f, f.store.Enqueue(f.ctx, item), "the same is queued once")
	item.Op = "other"
	require.NoError(f, f.store.Enqueue(f.ctx, item))
	items, err := f.store.Manual(f.ctx, stream, 10)
	require.NoError(f, err)
	require.Len(f, items, 2)
	require.Equal(f, "op", items[0].Op)
	require.Equal(f, []byte("x"), items[0].Payload)
	require.Equal(f, "why", items[0].Reason)
	require.False(f, items[0].CreatedAt.IsZero())
	require.NoError(f, f.store.ResolveManual(f.ctx, items[0].ID, "ann"))
	require.NoError(f, f.store.ResolveManual(f.ctx, items[0].ID, "bob"))
	decided, err := f.store.FindManual(f.ctx, items[0].ID)
	require.NoError(f, err)
	require.Equal(f, "ann", decided.ResolvedBy, "the first decision is kept")
	require.False(f, decided.ResolvedAt.IsZero())
	items[0].ResolvedAt, items[0].ResolvedBy = decided.ResolvedAt, "ann"
	require.Equal(f, items[0], decided)
	_, err = f.store.FindManual(f.ctx, 1<<40)
	require.ErrorIs(f, err, sequence.ErrNotFound)
	require.ErrorIs(f, f.store.ResolveManual(f.ctx, 1<<40, "ann"), sequence.ErrNotFound)
	items, err = f.store.Manual(f.ctx, stream, 10)
	require.NoError(f, err)
	require.Len(f, items, 1)
	require.Equal(f, "other", items[0].Op)
}

func badInputIsRefused[Tx any](f *fixture[Tx]) {
	_, err := f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: "unknown", Op: "op", Duration: time.Minute})
	require.ErrorIs(f, err, sequence.ErrUnknownStream)
	require.ErrorContains(f, err, "CreateStream")
	_, err = f.store.Status(f.ctx, "unknown")
	require.ErrorIs(f, err, sequence.ErrUnknownStream)
	_, err = f.store.Read(f.ctx, seqstore.ReadRequest{Stream: "unknown", Limit: 1})
	require.ErrorIs(f, err, sequence.ErrUnknownStream)
	_, _, err = f.store.Claim(f.ctx, seqstore.ClaimRequest{Stream: "unknown", Duration: time.Minute})
	require.ErrorIs(f, err, sequence.ErrUnknownStream)
	_, err = f.store.Seal(f.ctx, "unknown", 0)
	require.ErrorIs(f, err, sequence.ErrUnknownStream)
	_, err = f.store.EnterRecovery(f.ctx, "unknown", time.Minute)
	require.ErrorIs(f, err, sequence.ErrUnknownStream)

	large := make([]byte, sequence.MaxPayloadBytes+1)
	_, err = f.store.Commit(f.ctx, seqstore.CommitRequest{Stream: stream, Seq: 1, Token: 1, Payload: large}, nil)
	require.ErrorIs(f, err, leasing.ErrInvalid)
	require.ErrorContains(f, err, "commit a reference")
	_, err = f.store.Commit(f.ctx, seqstore.CommitRequest{Stream: stream, Seq: 1}, nil)
	require.ErrorIs(f, err, leasing.ErrInvalid)
	require.ErrorContains(f, err, "lease the number first")
	_, err = f.store.Commit(f.ctx, seqstore.CommitRequest{Stream: stream, Seq: 1, Token: 1}, nil)
	require.ErrorIs(f, err, sequence.ErrNotFound, "the number was never issued")
	require.ErrorContains(f, err, "lease a number first")
	for _, op := range []string{"", "a\x00b", string(make([]byte, 300))} {
		_, err = f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: op, Duration: time.Minute})
		require.ErrorIs(f, err, leasing.ErrInvalid)
	}
	for _, d := range []time.Duration{0, -time.Second, 1 << 62} {
		_, err = f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: "op", Duration: d})
		require.ErrorIs(f, err, leasing.ErrInvalid)
	}
	f.lease("op", time.Minute)
	f.seal(0) // nothing is below
	_, err = f.store.Seal(f.ctx, stream, 1)
	require.ErrorIs(f, err, sequence.ErrOpen)
	f.commit(f.find("op"), "x")
	_, err = f.store.Seal(f.ctx, stream, 2)
	require.ErrorIs(f, err, leasing.ErrInvalid, "2 was never issued")
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = f.store.Lease(ended, seqstore.LeaseRequest{Stream: stream, Op: "late", Duration: time.Minute})
	require.Error(f, err)
}

func hooksAreRemembered[Tx any](f *fixture[Tx]) {
	f.leaseExpired("a")
	claim := f.claim(time.Minute)
	req := resolution(claim, sequence.OutcomeGap, "")
	req.Uncleaned = true
	f.resolveAs(req, nil)
	f.commit(f.lease("b", time.Minute), "b")
	f.seal(0)
	uncleaned := func() []int64 {
		page, err := f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, Limit: 10, Uncleaned: true})
		require.NoError(f, err)
		return seqs(page.Entries)
	}
	require.Equal(f, []int64{1}, uncleaned())
	f.forget(10, 10)
	require.Equal(f, []int64{1}, uncleaned(), "it is not forgotten before its hooks have succeeded")
	require.NoError(f, f.store.Cleaned(f.ctx, stream, 1))
	require.Empty(f, uncleaned())
	require.Equal(f, 1, f.forget(10, 10))
	require.False(f, slices.ContainsFunc(f.read(false), func(e sequence.Entry) bool { return e.Seq == 1 }))
}

// The audit has every change to a number, in order, with its author. A change that is rolled back leaves no
// event.
func everyChangeIsAudited[Tx any](f *fixture[Tx]) {
	committed := f.lease("committed", time.Minute)
	f.leaseExpired("lost")
	gap := f.lease("gap", time.Minute)
	_, err := f.store.Commit(f.ctx, commitOf(committed, "x"), func(context.Context, Tx, sequence.Entry) error { return errors.New("undone") })
	require.Error(f, err)
	f.commit(committed, "x")
	failed := resolution(f.claim(time.Minute), seqstore.OutcomeFailed, "bad luck")
	f.resolveAs(failed, nil)
	f.await(func() bool {
		claim, ok := f.tryClaim(time.Minute)
		if ok {
			f.resolve(claim, sequence.OutcomeRecovered, "y")
		}
		return ok
	})
	f.release(gap)
	require.NoError(f, f.tryFill(sequence.FillRequest{Stream: stream, Seq: gap.Seq, Op: gap.Op}, nil))
	f.release(f.lease("sealed", time.Minute))
	f.seal(0)
	events := func() (all []string) {
		found, err := f.store.Events(f.ctx, stream, 1, 100)
		require.NoError(f, err)
		for i, e := range found {
			require.False(f, e.At.IsZero() || i > 0 && found[i-1].Seq == e.Seq && found[i-1].At.After(e.At), "%v", found)
			all = append(all, fmt.Sprintf("%d %s by %q under %d", e.Seq, e.Event, e.Who, e.Token))
		}
		return all
	}
	want := []string{
		`1 leased by "tester" under 1`, `1 committed by "tester" under 1`,
		`2 leased by "tester" under 1`, `2 recovering by "cleaner" under 2`, `2 failed by "cleaner" under 2`, `2 recovering by "cleaner" under 3`, `2 recovered by "cleaner" under 3`,
		`3 leased by "tester" under 1`, `3 gap by "tester" under 1`, `3 filled by "tester" under 1`,
		`4 committed by "cleaner" under 1`,
		`5 leased by "tester" under 1`, `5 gap by "tester" under 1`, `5 sealed by "" under 1`,
	}
	require.Equal(f, want, events())
	f.forget(2, 10)
	require.Equal(f, want[7:], events(), "forgotten with the number")
}
