package sequencetest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// faultyStore wraps a store, injects faults and counts requests.
type faultyStore[Tx any] struct {
	sequence.Store[Tx]
	cut             atomic.Bool     // requests of a writer do not get through
	missing         int64           // a number whose entry Read leaves out
	durations       []time.Duration // requested durations of leases
	beforeWatch     func()          // runs before each call of Watch
	lowestOpenCalls int             // calls of LowestOpen
	releasedClaims  atomic.Int64    // claims
}

var errCut = errors.New("the line is cut")

func (l *faultyStore[Tx]) Lease(ctx context.Context, req seqstore.LeaseRequest) (sequence.Entry, error) {
	l.durations = append(l.durations, req.Duration)
	return l.Store.Lease(ctx, req)
}

func (l *faultyStore[Tx]) Renew(ctx context.Context, req seqstore.RenewRequest) (time.Duration, error) {
	if l.cut.Load() {
		return 0, errCut
	}
	return l.Store.Renew(ctx, req)
}

func (l *faultyStore[Tx]) Commit(ctx context.Context, req seqstore.CommitRequest, write sequence.Write[Tx]) (sequence.Entry, error) {
	if l.cut.Load() {
		return sequence.Entry{}, errCut
	}
	return l.Store.Commit(ctx, req, write)
}

func (l *faultyStore[Tx]) Save(ctx context.Context, req seqstore.SaveRequest) error {
	if l.cut.Load() {
		return errCut
	}
	return l.Store.Save(ctx, req)
}

func (l *faultyStore[Tx]) ReleaseClaim(ctx context.Context, stream, id string) error {
	l.releasedClaims.Add(1)
	return l.Store.ReleaseClaim(ctx, stream, id)
}

func (l *faultyStore[Tx]) Read(ctx context.Context, req seqstore.ReadRequest) (seqstore.Page, error) {
	page, err := l.Store.Read(ctx, req)
	page.Entries = slices.DeleteFunc(page.Entries, func(e sequence.Entry) bool { return e.Seq == l.missing })
	return page, err
}

func (l *faultyStore[Tx]) Watch(ctx context.Context, stream string) (<-chan struct{}, error) {
	l.beforeWatch()
	return l.Store.Watch(ctx, stream)
}

func (l *faultyStore[Tx]) LowestOpen(ctx context.Context, stream string) (int64, error) {
	l.lowestOpenCalls++
	return l.Store.LowestOpen(ctx, stream)
}

func aKindWithoutHistoryHasTheDefault[Tx any](f *fixture[Tx]) {
	store := &faultyStore[Tx]{Store: f.store}
	s, err := sequence.NewStream[Tx](store, stream, sequence.Options[Tx]{Durations: sequence.Durations{Default: 40 * time.Second}})
	require.NoError(f, err)
	for _, op := range []string{"first", "second"} {
		n, err := s.Lease(f.ctx, sequence.Operation{ID: op, Kind: "kind"})
		require.NoError(f, err)
		require.NoError(f, n.Commit(f.ctx, nil, nil))
	}
	require.Equal(f, 40*time.Second, store.durations[0])
	require.Less(f, store.durations[1], 40*time.Second, "the first was quick")
	require.GreaterOrEqual(f, store.durations[1], 5*time.Second, "the floor")
	require.NoError(f, s.Close(f.ctx))
}

func aReaderPassesOverNoNumber[Tx any](f *fixture[Tx]) {
	for _, op := range []string{"a", "b", "c"} {
		f.commit(f.lease(op, time.Minute), op)
	}
	var seen []int64
	var failed error
	for e, err := range (sequence.Reader{Records: &faultyStore[Tx]{Store: f.store, missing: 2}, Stream: stream}).Read(f.ctx, 1) {
		if failed = err; err == nil {
			seen = append(seen, e.Seq)
		}
	}
	require.Equal(f, []int64{1}, seen)
	require.ErrorIs(f, failed, sequence.ErrNotFound)
}

// A number that closes while a wait begins does not block that wait.
func waitingRegistersBeforeItLooks[Tx any](f *fixture[Tx]) {
	e := f.lease("op", time.Minute)
	store := &faultyStore[Tx]{Store: f.store, beforeWatch: func() { f.commit(e, "x") }}
	require.NoError(f, sequence.Wait(f.ctx, store, stream, e.Seq+1))
	require.Equal(f, 1, store.lowestOpenCalls, "it looks when it has registered")
}

func theJournalKeepsWhatTheStoreHasNot[Tx any](f *fixture[Tx]) {
	store := &faultyStore[Tx]{Store: f.store}
	journal, err := sequence.OpenJournal(filepath.Join(f.TempDir(), "journal"))
	require.NoError(f, err)
	s, err := sequence.NewStream[Tx](store, stream, sequence.Options[Tx]{Journal: journal, Write: f.insert("result")})
	require.NoError(f, err)
	err = s.Do(f.ctx, sequence.Operation{ID: "op", Duration: 3 * f.unit}, func(ctx context.Context, n *sequence.Number[Tx]) error {
		store.cut.Store(true)
		<-ctx.Done()
		return n.Commit(f.ctx, []byte("result"), nil)
	})
	late := (*sequence.LateCommitError)(nil)
	require.ErrorAs(f, err, &late)
	require.Equal(f, sequence.SettledJournaled, late.Settled)
	_, err = s.Sync(f.ctx)
	require.ErrorIs(f, err, errCut)
	require.Len(f, journal.Pending(stream), 1, "it is kept until the store has it")
	sleep(4 * f.unit)
	f.resolve(f.claim(time.Minute), sequence.OutcomeGap, "")
	store.cut.Store(false)
	done, err := s.Sync(f.ctx)
	require.NoError(f, err)
	require.Len(f, done, 1)
	require.Equal(f, sequence.SettledCommitted, done[0].Settlement)
	require.Empty(f, journal.Pending(stream))
	require.Equal(f, []string{"result"}, f.db.Rows(f.T))
	require.NoError(f, s.Close(f.ctx))
	require.NoError(f, journal.Close())
}
