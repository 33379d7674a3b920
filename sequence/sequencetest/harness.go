package sequencetest

import (
	"context"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// Database is a database that several stores share, with a table of the application.
type Database[Tx any] interface {
	// Open returns a store on the database, like a store in another process.
	Open(t testing.TB) sequence.Store[Tx]
	// Insert writes a row into the application's table, as part of a transaction.
	Insert(ctx context.Context, tx Tx, row string) error
	// Rows returns the rows of that table, in any order.
	Rows(t testing.TB) []string
}

// Harness configures the suite.
type Harness[Tx any] struct {
	// New makes an empty database for one test.
	New func(t testing.TB) Database[Tx]
	// Virtual runs each test in a bubble of testing/synctest.
	Virtual bool
}

// stream is the name of the stream of each test. Every test has its own database.
const stream = `ledger/"ä"`

// fixture is the store and the database of a test. Its methods fail the test on any error.
type fixture[Tx any] struct {
	*testing.T
	h     Harness[Tx]
	db    Database[Tx]
	store sequence.Store[Tx]
	ctx   context.Context
	// unit is the duration of a short lease: long enough for a slow server, short enough for a test.
	unit time.Duration
}

func newFixture[Tx any](t *testing.T, h Harness[Tx]) *fixture[Tx] {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	db := h.New(t)
	f := &fixture[Tx]{T: t, h: h, db: db, store: db.Open(t), ctx: ctx, unit: time.Second}
	require.NoError(t, f.store.CreateStream(ctx, stream))
	return f
}

// await waits for a condition.
func (f *fixture[Tx]) await(condition func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); sleep(10 * time.Millisecond) {
		require.True(f, time.Now().Before(deadline), "it never happens")
	}
}

// sleep waits for d.
func sleep(d time.Duration) { <-time.After(d) }

func (f *fixture[Tx]) lease(op string, d time.Duration) sequence.Entry {
	f.Helper()
	e, err := f.store.Lease(f.ctx, seqstore.LeaseRequest{Stream: stream, Op: op, Kind: "kind", Owner: "tester", Duration: d})
	require.NoError(f, err)
	return e
}

// leaseExpired leases a number whose lease then runs out.
func (f *fixture[Tx]) leaseExpired(op string) sequence.Entry {
	f.Helper()
	e := f.lease(op, time.Millisecond)
	sleep(20 * time.Millisecond)
	return e
}

func commitOf(e sequence.Entry, payload string) seqstore.CommitRequest {
	return seqstore.CommitRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Payload: []byte(payload)}
}

func (f *fixture[Tx]) commit(e sequence.Entry, payload string) {
	f.Helper()
	require.NoError(f, f.tryCommit(e, payload))
}

func (f *fixture[Tx]) tryCommit(e sequence.Entry, payload string) error {
	_, err := f.store.Commit(f.ctx, commitOf(e, payload), f.insert(payload))
	return err
}

func (f *fixture[Tx]) tryFill(req sequence.FillRequest, write sequence.Write[Tx]) error {
	_, err := f.store.Fill(f.ctx, req, write)
	return err
}

func (f *fixture[Tx]) seal(upTo int64) (through int64) {
	f.Helper()
	through, err := f.store.Seal(f.ctx, stream, upTo)
	require.NoError(f, err)
	return through
}

// insert is the caller's own write of a row.
func (f *fixture[Tx]) insert(row string) sequence.Write[Tx] {
	return func(ctx context.Context, tx Tx, _ sequence.Entry) error { return f.db.Insert(ctx, tx, row) }
}

func (f *fixture[Tx]) forget(upTo int64, limit int) int {
	f.Helper()
	n, err := f.store.Forget(f.ctx, stream, upTo, limit)
	require.NoError(f, err)
	return n
}

func (f *fixture[Tx]) claim(d time.Duration) sequence.Entry {
	f.Helper()
	e, ok := f.tryClaim(d)
	require.True(f, ok, "there is nothing to claim")
	return e
}

func (f *fixture[Tx]) tryClaim(d time.Duration) (sequence.Entry, bool) {
	f.Helper()
	e, ok, err := f.store.Claim(f.ctx, seqstore.ClaimRequest{Stream: stream, Owner: "cleaner", Duration: d})
	require.NoError(f, err)
	return e, ok
}

func resolution(e sequence.Entry, outcome sequence.Outcome, text string) seqstore.ResolveRequest {
	return seqstore.ResolveRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Outcome: outcome, Payload: []byte(text), Reason: text, Owner: "cleaner"}
}

func (f *fixture[Tx]) resolve(e sequence.Entry, outcome sequence.Outcome, text string) sequence.Entry {
	f.Helper()
	var write sequence.Write[Tx]
	if outcome == sequence.OutcomeRecovered {
		write = f.insert(text)
	}
	return f.resolveAs(resolution(e, outcome, text), write)
}

func (f *fixture[Tx]) resolveAs(req seqstore.ResolveRequest, write sequence.Write[Tx]) sequence.Entry {
	f.Helper()
	e, err := f.store.Resolve(f.ctx, req, write)
	require.NoError(f, err)
	return e
}

func (f *fixture[Tx]) release(e sequence.Entry) {
	f.Helper()
	require.NoError(f, f.store.Release(f.ctx, seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: e.Token}))
}

func (f *fixture[Tx]) find(op string) sequence.Entry {
	f.Helper()
	e, err := f.store.Find(f.ctx, stream, op)
	require.NoError(f, err)
	return e
}

func (f *fixture[Tx]) status() sequence.Status {
	f.Helper()
	s, err := f.store.Status(f.ctx, stream)
	require.NoError(f, err)
	return s
}

func (f *fixture[Tx]) read(sealed bool) []sequence.Entry {
	f.Helper()
	page, err := f.store.Read(f.ctx, seqstore.ReadRequest{Stream: stream, From: 1, Limit: 10_000, Sealed: sealed})
	require.NoError(f, err)
	return page.Entries
}

// seqs returns the sequence numbers of entries.
func seqs(entries []sequence.Entry) []int64 {
	all := []int64{}
	for _, e := range entries {
		all = append(all, e.Seq)
	}
	return all
}

// lateError checks that err is a *LateCommitError for a number in the given state.
func (f *fixture[Tx]) lateError(err error, state sequence.State) *sequence.LateCommitError {
	f.Helper()
	late := (*sequence.LateCommitError)(nil)
	require.ErrorAs(f, err, &late)
	require.ErrorIs(f, err, sequence.ErrLate)
	require.Equal(f, state, late.Entry.State)
	return late
}

// requireLate is like lateError, but has no result.
func (f *fixture[Tx]) requireLate(err error, state sequence.State) {
	f.Helper()
	require.NotNil(f, f.lateError(err, state))
}

// writer returns a Stream on the fixture's store. The test closes the Stream at its end.
func (f *fixture[Tx]) writer(options sequence.Options[Tx]) *sequence.Stream[Tx] {
	f.Helper()
	s, err := sequence.NewStream(f.store, stream, options)
	require.NoError(f, err)
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}
