package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// A callback that panics, or ends its goroutine, counts as a failed attempt: the cleaner and its
// process continue.
func trapT198[Tx any](f *fixture[Tx]) {
	for kind, fails := range map[string]func(){"panic": func() { panic("bad code") }, "end": runtime.Goexit} {
		options := map[string]sequence.CleanerOptions[Tx]{
			"write":  {Write: func(context.Context, Tx, sequence.Entry) error { fails(); return nil }},
			"select": {Select: func(context.Context, sequence.Entry, []sequence.Step) []sequence.Step { fails(); return nil }},
			"load":   {Select: sequence.ByLoad(func(context.Context) sequence.Load { fails(); return sequence.LowLoad })},
			"step": {Steps: []sequence.Step{{Name: "step", Recover: func(context.Context, sequence.Entry) (sequence.Recovery, error) {
				fails()
				return sequence.Recovery{}, nil
			}}}},
		}
		for name, o := range options {
			op := kind + " in " + name
			f.save(f.leaseExpired(op), sequence.Completed, op)
			o.MaxAttempts, o.RetryAfter = 2, time.Millisecond
			c := f.cleaner(o)
			f.await(func() bool {
				f.sweep(c)
				return f.status().Open == 0
			})
			found := f.find(op)
			require.Equal(f, sequence.ReasonRecoveryFailed, found.Reason, op)
			require.Equal(f, 2, found.Attempts, op)
			require.Contains(f, found.LastError, map[string]string{"panic": "panic: bad code", "end": "ended its goroutine"}[kind])
			require.Contains(f, f.manualPayloads(), op)
		}

		for i := range 3 {
			f.leaseExpired(fmt.Sprint(kind, " in OnMode ", i))
		}
		called := 0
		f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{Cascade: 1, OnMode: func(context.Context, bool) { called++; fails() }}))
		require.Positive(f, called)
		require.Zero(f, f.status().Open)

		f.leaseExpired(kind + " in a hook")
		f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{Hooks: []sequence.Hook{func(context.Context, sequence.Entry) error { fails(); return nil }}}))
		require.True(f, f.find(kind+" in a hook").Uncleaned)
		require.NoError(f, f.store.Cleaned(f.ctx, stream, f.find(kind+" in a hook").Seq))
	}

	// A writer's own panic propagates, and its number is released.
	s := f.writer(sequence.Options[Tx]{})
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "caught", Duration: time.Hour})
	require.NoError(f, err)
	require.PanicsWithValue(f, "bad code", func() {
		_ = n.Commit(f.ctx, []byte("x"), func(context.Context, Tx, sequence.Entry) error { panic("bad code") })
	})
	require.ErrorIs(f, n.Err(), leasing.ErrReleased)
	require.Equal(f, sequence.Gap, f.find("caught").State)
	require.Empty(f, f.db.Rows(f.T))
}

// Hooks that always fail do not block others, even if they belong to as many numbers as a sweep
// handles.
func trapT199[Tx any](f *fixture[Tx]) {
	const failing = 101
	var broken atomic.Bool
	broken.Store(true)
	ran := map[string]int{}
	hook := func(_ context.Context, e sequence.Entry) error {
		if ran[e.Op]++; broken.Load() && e.Op != "good" {
			return errors.New("the lock server is away")
		}
		return nil
	}
	gap := func(op string) {
		f.lease(op, time.Hour)
		require.NoError(f, f.store.Expire(f.ctx, stream, f.find(op).Seq))
		req := resolution(f.claim(time.Minute), sequence.OutcomeGap, "")
		req.Uncleaned = true
		f.resolveAs(req, nil)
	}
	for i := range failing {
		gap(fmt.Sprint("bad ", i))
	}
	gap("good")
	for i := range failing {
		gap(fmt.Sprint("as bad ", i))
	}
	c := f.cleaner(sequence.CleanerOptions[Tx]{Hooks: []sequence.Hook{hook}})
	for range 4 {
		f.sweep(c)
	}
	require.Equal(f, 1, ran["good"])
	require.Len(f, ran, 2*failing+1, "each has its turn")
	f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{Hooks: []sequence.Hook{hook}})) // a new process also reaches the others
	broken.Store(false)
	for range 4 {
		f.sweep(c)
	}
	page, err := f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 1, Uncleaned: true})
	require.NoError(f, err)
	require.Empty(f, page.Entries)
}

// A hook that does not return blocks neither the cleaner nor other hooks, and does not run twice at
// the same time.
func trapT206[Tx any](f *fixture[Tx]) {
	f.leaseExpired("hangs")
	f.leaseExpired("other")
	release := make(chan struct{})
	var hanging, others, beside atomic.Int32
	c := f.cleaner(sequence.CleanerOptions[Tx]{ClaimFor: f.unit, Hooks: []sequence.Hook{func(_ context.Context, e sequence.Entry) error {
		if e.Op != "hangs" {
			others.Add(1)
			return nil
		}
		if hanging.Add(1) > 1 {
			beside.Add(1)
		}
		defer hanging.Add(-1)
		<-release // although its context has ended
		return nil
	}}})
	f.sweep(c)
	require.Zero(f, f.status().Open, "both numbers are closed")
	f.sweep(c)
	require.Equal(f, int32(1), others.Load())
	require.Zero(f, beside.Load())
	require.True(f, f.find("hangs").Uncleaned)
	close(release)
	f.await(func() bool {
		f.sweep(c)
		return !f.find("hangs").Uncleaned
	})
}

// A reader whose place is not in the stream gets an error, and does not skip missing entries.
func trapT201[Tx any](f *fixture[Tx]) {
	var marks []string
	for i := range 8 {
		f.commit(f.lease(fmt.Sprint(i), time.Minute), fmt.Sprint(i))
		marks = append(marks, f.find(fmt.Sprint(i)).Mark())
	}
	f.seal(0)
	reader := sequence.Reader{Records: f.store, Stream: stream, Page: 3}
	read := func(r sequence.Reader, from int64) (seen []int64, failed error) {
		for e, err := range r.Read(f.ctx, from) {
			if failed = err; err == nil {
				seen = append(seen, e.Seq)
			}
		}
		return seen, failed
	}
	outside := func(r sequence.Reader, from int64) {
		f.Helper()
		seen, err := read(r, from)
		require.Empty(f, seen)
		place := (*sequence.CheckpointError)(nil)
		require.ErrorAs(f, err, &place)
		require.ErrorIs(f, err, sequence.ErrCheckpoint)
		require.ErrorIs(f, err, sequence.ErrNotFound)
		require.Equal(f, from, place.From)
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		defer cancel()
		for _, err = range r.Follow(ctx, from) {
			break
		}
		require.ErrorIs(f, err, sequence.ErrCheckpoint, "a follower does not wait for what was before")
	}
	sees := func(r sequence.Reader, from int64, want ...int64) {
		f.Helper()
		seen, err := read(r, from)
		require.NoError(f, err)
		require.Equal(f, want, seen)
	}
	sees(reader, 6, 6, 7, 8)
	sees(reader, 9)
	outside(reader, 10)
	for _, r := range []sequence.Reader{reader, {Records: f.store, Stream: stream, Sealed: true}} {
		r.After = marks[4]
		sees(r, 6, 6, 7, 8)
		outside(r, 7) // its mark belongs to another number
	}
	other := reader
	again := f.find("4")
	again.ClosedAt = again.ClosedAt.Add(time.Second)
	other.After = again.Mark()
	outside(other, 6) // restored, and closed again

	require.Equal(f, 4, f.forget(4, 100))
	outside(reader, 4)
	outside(reader, 2)
	sees(reader, 5, 5, 6, 7, 8)
	sees(reader, 1, 5, 6, 7, 8) // the beginning is the first kept entry
	kept := reader
	kept.After = marks[3]
	sees(kept, 5, 5, 6, 7, 8) // a reader may continue after an entry that is forgotten
	require.Equal(f, 4, f.forget(8, 100))
	outside(reader, 5)
	outside(reader, 8)
	sees(reader, 9)
	sees(reader, 1)

	// When a new epoch has begun, a reader of the previous epoch can't continue.
	f.commit(f.lease("epoch", time.Minute), "epoch")
	f.seal(0)
	kept.After = f.find("epoch").Mark()
	sees(kept, 10)
	epoch, err := f.store.NewEpoch(f.ctx, stream)
	require.NoError(f, err)
	outside(kept, 10)
	require.Equal(f, 1, f.forget(9, 1))
	outside(kept, 10)
	sees(reader, 10)
	f.commit(f.lease("in it", time.Minute), "in it")
	for e, err := range reader.Read(f.ctx, 10) {
		require.NoError(f, err)
		require.Equal(f, epoch, e.Epoch)
		kept.After = e.Mark()
	}
	sees(kept, 11)
	_, err = f.store.NewEpoch(f.ctx, stream)
	require.NoError(f, err)
	outside(kept, 11)
	_, err = f.store.NewEpoch(f.ctx, "unknown")
	require.ErrorIs(f, err, sequence.ErrUnknownStream)

	// Entries are forgotten while a reader is under way.
	for i := range 6 {
		f.commit(f.lease(fmt.Sprint("later ", i), time.Minute), fmt.Sprint("later ", i))
	}
	f.seal(0)
	var failed error
	for e, err := range reader.Read(f.ctx, 10) {
		if failed = err; err == nil && e.Seq == 12 {
			f.forget(16, 100)
		}
	}
	require.ErrorIs(f, failed, sequence.ErrCheckpoint)
}

// A repeated commit gets its answer although the context of the work has ended with the number.
func trapT204[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	require.NoError(f, s.Do(f.ctx, sequence.Operation{ID: "op", Duration: time.Minute}, func(ctx context.Context, n *sequence.Number[Tx]) error {
		require.NoError(f, n.Commit(ctx, []byte("x"), f.insert("x")))
		require.Error(f, ctx.Err())
		require.ErrorIs(f, n.Commit(ctx, []byte("y"), f.insert("y")), sequence.ErrOtherPayload)
		return n.Commit(ctx, []byte("x"), f.insert("again"))
	}))
	require.Equal(f, []string{"x"}, f.db.Rows(f.T))
}

// After an operator has ended a lease, a claim, or a pause, a cleaner can close the number.
func anOperatorExpiresALease[Tx any](f *fixture[Tx]) {
	expire := func(seq int64) {
		f.Helper()
		require.NoError(f, f.store.Expire(f.ctx, stream, seq))
	}
	e := f.lease("op", time.Hour)
	_, ok := f.tryClaim(time.Hour)
	require.False(f, ok)
	expire(e.Seq)
	require.Equal(f, 1, f.status().Expired)
	f.requireLate(f.tryCommit(e, "x"), sequence.Leased)
	claim := f.claim(time.Hour)
	expire(e.Seq)
	f.requireLate(f.store.ExtendClaim(f.ctx, seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: claim.Token, Duration: time.Hour}), sequence.Recovering)
	failed := resolution(f.claim(time.Hour), seqstore.OutcomeFailed, "bad luck")
	failed.RetryAfter = time.Hour
	f.resolveAs(failed, nil)
	_, ok = f.tryClaim(time.Hour)
	require.False(f, ok)
	expire(e.Seq)
	f.resolve(f.claim(time.Hour), sequence.OutcomeGap, "")
	expire(e.Seq)
	require.Equal(f, sequence.Gap, f.find("op").State)
	require.ErrorIs(f, f.store.Expire(f.ctx, stream, 99), sequence.ErrNotFound)
	require.ErrorIs(f, f.store.Expire(f.ctx, "unknown", 1), sequence.ErrUnknownStream)

	s := f.writer(sequence.Options[Tx]{})
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "held", Duration: 6 * f.unit})
	require.NoError(f, err)
	expire(n.Seq())
	select {
	case <-n.Context().Done():
		require.ErrorIs(f, n.Err(), leasing.ErrLost)
	case <-time.After(10 * f.unit):
		require.Fail(f, "the holder goes on")
	}
	f.resolve(f.claim(time.Hour), sequence.OutcomeGap, "")
}
