package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/stretchr/testify/require"
)

func aDoClosesItsNumber[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	op := func(id string) sequence.Operation {
		return sequence.Operation{ID: id, Kind: "kind", Duration: time.Minute}
	}
	require.NoError(f, s.Do(f.ctx, op("good"), func(ctx context.Context, n *sequence.Number[Tx]) error {
		require.Equal(f, int64(1), n.Seq())
		require.NoError(f, ctx.Err())
		return n.Commit(ctx, []byte("good"), f.insert("good"))
	}))
	own := errors.New("the work's own")
	require.ErrorIs(f, s.Do(f.ctx, op("bad"), func(context.Context, *sequence.Number[Tx]) error { return own }), own)
	require.ErrorIs(f, s.Do(f.ctx, op("forgetful"), func(context.Context, *sequence.Number[Tx]) error { return nil }), sequence.ErrNotCommitted)
	require.NoError(f, s.Do(f.ctx, op("released"), func(ctx context.Context, n *sequence.Number[Tx]) error { return n.Release(ctx) }))
	require.Panics(f, func() {
		_ = s.Do(f.ctx, op("panic"), func(context.Context, *sequence.Number[Tx]) error { panic("x") })
	})
	require.ErrorIs(f, s.Do(f.ctx, op("write"), func(ctx context.Context, n *sequence.Number[Tx]) error {
		return n.Commit(ctx, nil, func(context.Context, Tx, sequence.Entry) error { return own })
	}), own)
	require.ErrorIs(f, s.Do(f.ctx, op("good"), func(context.Context, *sequence.Number[Tx]) error { return nil }), sequence.ErrEnded)
	states := map[string]sequence.State{}
	for _, e := range f.read(false) {
		states[e.Op] = e.State
	}
	require.Equal(f, map[string]sequence.State{
		"good": sequence.Committed, "bad": sequence.Gap, "forgetful": sequence.Gap, "released": sequence.Gap, "panic": sequence.Gap, "write": sequence.Gap,
	}, states)
	require.Equal(f, []string{"good"}, f.db.Rows(f.T))
}

// A second lease of an operation in the same process waits until the first has ended.
func anOperationHasOneHolder[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	op := sequence.Operation{ID: "one", Duration: time.Minute}
	first, err := s.Lease(f.ctx, op)
	require.NoError(f, err)
	second := make(chan error, 1)
	go func() {
		_, err := s.Lease(f.ctx, op)
		second <- err
	}()
	sleep(f.unit / 4)
	require.Empty(f, second)
	require.NoError(f, first.Commit(f.ctx, []byte("one"), f.insert("one")))
	require.ErrorIs(f, <-second, sequence.ErrEnded)
}

// DoAll sends a separate lease request only if no commit precedes the lease. Each leased number is
// used, or released.
func aDoOfManyLeasesAsItCommits[Tx any](f *fixture[Tx]) {
	store := &faultyStore[Tx]{Store: f.store}
	s, err := sequence.NewStream[Tx](store, stream, sequence.Options[Tx]{})
	require.NoError(f, err)
	ops := func(ids ...string) (all []sequence.Operation) {
		for _, id := range ids {
			all = append(all, sequence.Operation{ID: id, Duration: time.Minute})
		}
		return all
	}
	own := errors.New("the work's own")
	var order []string
	work := func(ctx context.Context, n *sequence.Number[Tx]) error {
		order = append(order, fmt.Sprint(n.Seq(), n.Op()))
		switch n.Op() {
		case "released":
			return n.Release(ctx)
		case "bad":
			return own
		}
		err := n.Commit(ctx, []byte(n.Op()), f.insert(n.Op()))
		require.ErrorIs(f, n.Err(), leasing.ErrReleased)
		switch n.Op() {
		case "bad afterwards":
			return own
		case "panic afterwards":
			panic("x")
		}
		return err
	}
	done, err := s.DoAll(f.ctx, ops("a", "b", "released", "c", "d", "bad", "never"), work)
	require.ErrorIs(f, err, own)
	require.Equal(f, 5, done)
	require.Len(f, store.durations, 2, "of the first, and of the one after a release")
	done, err = s.DoAll(f.ctx, ops("bad afterwards", "not begun"), work)
	require.ErrorIs(f, err, own)
	require.Zero(f, done)
	require.Panics(f, func() { _, _ = s.DoAll(f.ctx, ops("panic afterwards", "not begun either"), work) })
	done, err = s.DoAll(f.ctx, ops("e", "a", "f"), work)
	require.ErrorIs(f, err, sequence.ErrEnded, "an operation that has a number is no reason to commit less")
	require.Equal(f, 1, done)
	ctx, cancel := context.WithCancel(f.ctx)
	done, err = s.DoAll(ctx, ops("g", "h"), func(ctx context.Context, n *sequence.Number[Tx]) error {
		defer cancel()
		return work(ctx, n)
	})
	require.ErrorIs(f, err, context.Canceled)
	require.Equal(f, 1, done)
	_, err = s.DoAll(f.ctx, ops("x"), nil)
	require.ErrorIs(f, err, leasing.ErrInvalid)
	require.NoError(f, s.Close(f.ctx))

	require.Equal(f, []string{"1a", "2b", "3released", "4c", "5d", "6bad", "7bad afterwards", "9panic afterwards", "11e", "12g"}, order)
	gaps, err := (sequence.Reader{Records: f.store, Stream: stream}).Gaps(f.ctx, 1, 100)
	require.NoError(f, err)
	require.Equal(f, []int64{3, 6, 8, 10, 13}, seqs(gaps), "nothing is left open")
	require.Equal(f, int64(13), f.status().Watermark)
	require.ElementsMatch(f, []string{"a", "b", "c", "d", "bad afterwards", "panic afterwards", "e", "g"}, f.db.Rows(f.T))
}

// A writer without renewals commits too late, and its result is still kept.
func aLateCommitOfADoIsSettled[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{Lease: leasing.Options{NoAutoRenew: true}, Write: func(ctx context.Context, tx Tx, e sequence.Entry) error {
		return f.db.Insert(ctx, tx, string(e.Payload))
	}})
	late := func(id string, meanwhile func()) error {
		return s.Do(f.ctx, sequence.Operation{ID: id, Duration: 3 * f.unit}, func(ctx context.Context, n *sequence.Number[Tx]) error {
			sleep(4 * f.unit)
			meanwhile()
			return n.Commit(f.ctx, []byte(id), nil)
		})
	}
	err := late("saved", func() {})
	require.Equal(f, sequence.SettledSaved, f.lateError(err, sequence.Leased).Settled)
	claim := f.claim(time.Minute)
	require.Equal(f, sequence.Work{Phase: sequence.Completed, Data: []byte("saved")}, claim.Work)
	f.resolve(claim, sequence.OutcomeRecovered, "saved")

	err = late("filled", func() { f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "") })
	require.NoError(f, err, "the gap was still open")
	require.Equal(f, sequence.Filled, f.find("filled").State)

	err = late("queued", func() {
		f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "")
		f.seal(0)
	})
	require.Equal(f, sequence.SettledQueued, f.lateError(err, sequence.Sealed).Settled)
	items, err := f.store.Manual(f.ctx, stream, 10)
	require.NoError(f, err)
	require.Len(f, items, 1)
	require.Equal(f, []byte("queued"), items[0].Payload)
	require.ElementsMatch(f, []string{"saved", "filled"}, f.db.Rows(f.T))
}

func settlingLosesNothing[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	settle := func(e sequence.Entry, payload string) sequence.Settlement {
		settled, _, err := s.Settle(f.ctx, sequence.Unsettled{Seq: e.Seq, Op: e.Op, Token: e.Token, Payload: []byte(payload)}, f.insert(payload))
		require.NoError(f, err)
		return settled
	}
	live := f.lease("live", time.Minute)
	require.Equal(f, sequence.SettledCommitted, settle(live, "live"), "its lease lasts")
	require.Equal(f, sequence.SettledCommitted, settle(live, "live"))
	require.Equal(f, sequence.SettledQueued, settle(live, "other"))
	recovered := f.leaseExpired("recovered")
	f.resolve(f.claim(time.Minute), sequence.OutcomeRecovered, "by")
	require.Equal(f, sequence.SettledRecovered, settle(recovered, "recovered"))
	require.Equal(f, sequence.SettledQueued, settle(sequence.Entry{Seq: 77, Op: "unknown", Token: 1}, "unknown"))
	require.ElementsMatch(f, []string{"live", "by"}, f.db.Rows(f.T))
	items, err := f.store.Manual(f.ctx, stream, 10)
	require.NoError(f, err)
	require.Len(f, items, 2)
}

func theContextEndsBeforeTheNumberCanBeClaimed[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{Lease: leasing.Options{NoAutoRenew: true}})
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "op", Duration: 3 * f.unit})
	require.NoError(f, err)
	require.NoError(f, n.Err())
	require.Greater(f, n.Remaining(), time.Duration(0))
	<-n.Context().Done()
	lost := (*leasing.LostError)(nil)
	require.ErrorAs(f, n.Err(), &lost)
	require.Equal(f, leasing.LostExpired, lost.Reason)
	if f.h.Virtual { // to the nanosecond
		_, ok := f.tryClaim(time.Minute)
		require.False(f, ok, "the context ended too late")
	}
	sleep(f.unit / 2)
	_, ok := f.tryClaim(time.Minute)
	require.True(f, ok)
}

func theEndOfALeaseHasACause[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "op", Duration: time.Minute})
	require.NoError(f, err)
	require.NoError(f, n.Save(f.ctx, sequence.Partial, []byte("half")))
	require.NoError(f, n.Renew(f.ctx))
	require.NoError(f, n.Commit(f.ctx, []byte("x"), nil))
	require.ErrorIs(f, n.Err(), leasing.ErrReleased)
	require.ErrorIs(f, context.Cause(n.Context()), leasing.ErrReleased)
	require.NoError(f, n.Commit(f.ctx, []byte("x"), nil), "once more")
	require.ErrorIs(f, n.Commit(f.ctx, []byte("y"), nil), sequence.ErrOtherPayload)
	require.NoError(f, n.Release(f.ctx))
	require.Equal(f, sequence.Committed, f.find("op").State)

	again, err := s.Lease(f.ctx, sequence.Operation{ID: "again", Duration: time.Minute})
	require.NoError(f, err)
	require.NoError(f, again.Save(f.ctx, sequence.Partial, []byte("half")))
	other, err := sequence.NewStream(f.db.Open(f.T), stream, sequence.Options[Tx]{})
	require.NoError(f, err)
	came, err := other.Lease(f.ctx, sequence.Operation{ID: "again", Duration: time.Minute})
	require.NoError(f, err, "an operation comes back to its number, in another process")
	require.Equal(f, again.Seq(), came.Seq())
	require.Equal(f, "half", string(came.Work().Data))
	require.NoError(f, came.Release(f.ctx))
	require.Error(f, again.Renew(f.ctx))
	require.ErrorIs(f, again.Err(), leasing.ErrLost)
	require.NoError(f, other.Close(f.ctx))
}
