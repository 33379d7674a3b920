package sequence_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// faultyStore is a store behind a bad network.
type faultyStore struct {
	*memsequence.Store
	cut     atomic.Bool   // no request arrives
	losing  atomic.Int32  // the number of replies to lose
	slow    time.Duration // the delay of the reply to a CommitAndLease
	leases  atomic.Int32
	commits atomic.Int32
}

var errNetwork = errors.New("the network")

func (f *faultyStore) reply(err error) error {
	if err == nil && f.losing.Add(-1) >= 0 {
		return errNetwork
	}
	return err
}

func (f *faultyStore) Lease(ctx context.Context, req seqstore.LeaseRequest) (sequence.Entry, error) {
	f.leases.Add(1)
	if f.cut.Load() {
		return sequence.Entry{}, errNetwork
	}
	e, err := f.Store.Lease(ctx, req)
	return e, f.reply(err)
}

func (f *faultyStore) Renew(ctx context.Context, req seqstore.RenewRequest) (time.Duration, error) {
	if f.cut.Load() {
		return 0, errNetwork
	}
	return f.Store.Renew(ctx, req)
}

func (f *faultyStore) Commit(ctx context.Context, req seqstore.CommitRequest, write sequence.Write[memsequence.Tx]) (sequence.Entry, error) {
	f.commits.Add(1)
	if f.cut.Load() {
		return sequence.Entry{}, errNetwork
	}
	e, err := f.Store.Commit(ctx, req, write)
	return e, f.reply(err)
}

func (f *faultyStore) Save(ctx context.Context, req seqstore.SaveRequest) error {
	if f.cut.Load() {
		return errNetwork
	}
	return f.Store.Save(ctx, req)
}

func (f *faultyStore) CommitAndLease(ctx context.Context, req seqstore.CommitRequest, next seqstore.LeaseRequest, write sequence.Write[memsequence.Tx]) (done, leased sequence.Entry, err error) {
	f.commits.Add(1)
	if f.cut.Load() {
		return done, leased, errNetwork
	}
	done, leased, err = f.Store.CommitAndLease(ctx, req, next, write)
	time.Sleep(f.slow)
	if err = f.reply(err); err != nil {
		return sequence.Entry{}, sequence.Entry{}, err
	}
	return done, leased, nil
}

// inBubble runs a test in virtual time, with a stream called "s" on a faulty store.
func inBubble(t *testing.T, test func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx])) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memsequence.New()}
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{})
		require.NoError(t, err)
		test(t, store, s)
		require.NoError(t, s.Close(context.Background()))
	})
}

// A lost reply causes neither a second number nor a second write.
func TestLostRepliesAreAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		store.losing.Store(2)
		n, err := s.Lease(t.Context(), sequence.Operation{ID: "a"})
		require.NoError(t, err)
		require.Equal(t, int64(1), n.Seq())
		require.Equal(t, int32(3), store.leases.Load())
		store.losing.Store(2)
		writes := 0
		require.NoError(t, n.Commit(t.Context(), []byte("x"), func(context.Context, memsequence.Tx, sequence.Entry) error {
			writes++
			return nil
		}))
		require.Equal(t, 1, writes)
		require.Equal(t, int32(3), store.commits.Load())
		status, err := store.Status(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, int64(1), status.Last)
		require.Equal(t, int64(1), status.Watermark)
	})
}

// To the store a second lease of an operation looks like a retry. Within one process, the second lease waits
// for the first holder.
func TestTrap_T95_ANumberHasTwoHoldersInOneProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		first, err := s.Lease(t.Context(), sequence.Operation{ID: "a"})
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.Lease(short, sequence.Operation{ID: "a"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		again := make(chan error)
		go func() {
			_, err := s.Lease(context.Background(), sequence.Operation{ID: "a"})
			again <- err
		}()
		synctest.Wait()
		other, err := s.Lease(t.Context(), sequence.Operation{ID: "b"})
		require.NoError(t, err)
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, first.Commit(t.Context(), []byte("x"), nil))
		require.ErrorIs(t, <-again, sequence.ErrEnded)

		last, err := s.Lease(t.Context(), sequence.Operation{ID: "c"})
		require.NoError(t, err)
		go func() {
			_, err := s.Lease(context.Background(), sequence.Operation{ID: "c"})
			again <- err
		}()
		synctest.Wait()
		go func() {
			<-last.Context().Done()
			_ = last.Release(context.Background())
		}()
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, <-again, leasing.ErrClosed, "Close leaves nobody waiting")
	})
}

// Recovery mode has doubled a lease, and ends. A renewal is applied after that, its reply is lost, and then the store is unreachable.
// The holder trusts the doubled lease, so no cleaner may claim the number before the end of that lease.
func TestTrap_T96_ARenewalAfterRecoveryModeShortensALeaseThatIsTrusted(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		n, err := s.Lease(t.Context(), sequence.Operation{ID: "a", Duration: time.Minute})
		require.NoError(t, err)
		_, err = store.EnterRecovery(t.Context(), "s", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, n.Renew(t.Context()))
		require.Greater(t, n.Remaining(), 100*time.Second)
		time.Sleep(20 * time.Second)
		_, err = store.Store.Renew(t.Context(), seqstore.RenewRequest{Stream: "s", Seq: n.Seq(), Token: n.Token(), Duration: time.Minute})
		require.NoError(t, err)
		store.cut.Store(true)
		<-n.Context().Done()
		_, claimed, err := store.Claim(t.Context(), seqstore.ClaimRequest{Stream: "s", Owner: "cleaner", ID: "c", Duration: time.Minute})
		require.NoError(t, err)
		require.False(t, claimed, "nobody could claim it while it was trusted")
		e, err := store.Find(t.Context(), "s", "a")
		require.NoError(t, err)
		require.True(t, e.ExpiresAt.After(time.Now()))
		store.cut.Store(false)
	})
}

// A number that was leased with a commit is trusted from the time before the commit was sent. If the reply is lost,
// the number is found by its operation.
func TestANumberThatCameWithACommit(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		ops := []sequence.Operation{{ID: "a", Duration: time.Minute}, {ID: "b", Duration: time.Minute}, {ID: "c", Duration: time.Minute}}
		store.slow = 8 * time.Second
		writes := 0
		done, err := s.DoAll(t.Context(), ops, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
			e, err := store.Find(ctx, "s", n.Op())
			require.NoError(t, err)
			require.LessOrEqual(t, n.Remaining(), time.Until(e.ExpiresAt), "it may be claimed while it is trusted")
			require.Greater(t, n.Remaining(), 40*time.Second)
			if n.Op() == "b" {
				store.losing.Store(1)
			}
			return n.Commit(ctx, []byte(n.Op()), func(context.Context, memsequence.Tx, sequence.Entry) error {
				writes++
				return nil
			})
		})
		require.NoError(t, err)
		require.Equal(t, 3, done)
		require.Equal(t, 3, writes)
		require.Equal(t, int32(2), store.leases.Load(), "of the first, and of the one whose reply was lost")
		status, err := store.Status(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, int64(3), status.Last)
		require.Equal(t, int64(3), status.Watermark)

		// A reply that takes longer than the engine's request timeout counts as lost.
		store.slow = 30 * time.Second
		done, err = s.DoAll(t.Context(), []sequence.Operation{{ID: "d", Duration: time.Minute}, {ID: "e", Duration: time.Minute}}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
			return n.Commit(ctx, []byte(n.Op()), nil)
		})
		require.NoError(t, err)
		require.Equal(t, 2, done)
		status, err = store.Status(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, int64(5), status.Watermark)
	})
}

// The context of a writer that is cut off ends before the number can be claimed. Its lease is not
// extended, and its finished result is settled when the connection is back.
func TestTrap_S12_AWriterThatIsCutOffExtendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		began := time.Now()
		err := s.Do(t.Context(), sequence.Operation{ID: "a", Duration: time.Minute}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
			store.cut.Store(true)
			<-ctx.Done()
			require.Less(t, time.Since(began), time.Minute)
			require.ErrorIs(t, context.Cause(ctx), leasing.ErrLost)
			time.Sleep(2 * time.Minute)
			require.Error(t, n.Commit(t.Context(), []byte("x"), nil))
			store.cut.Store(false)
			return n.Commit(t.Context(), []byte("x"), nil)
		})
		late := (*sequence.LateCommitError)(nil)
		require.ErrorAs(t, err, &late)
		require.Equal(t, sequence.SettledSaved, late.Settled)
		require.ErrorContains(t, err, "saved")
		e, err := store.Find(t.Context(), "s", "a")
		require.NoError(t, err)
		require.Equal(t, 0, e.Renewals)
		require.Equal(t, "x", string(e.Work.Data))
	})
}

// A lease is renewed while the work continues, and its events are emitted.
func TestALeaseIsRenewedWhileTheWorkGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		var renewed, released atomic.Int32
		defer s.Subscribe(func(e leasing.Event) {
			switch e.Kind {
			case leasing.EventRenewed:
				renewed.Add(1)
			case leasing.EventReleased:
				released.Add(1)
			}
			require.Equal(t, "sequence/s/a", e.Name)
		})()
		require.NoError(t, s.Do(t.Context(), sequence.Operation{ID: "a", Duration: time.Minute}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
			time.Sleep(10 * time.Minute)
			require.NoError(t, ctx.Err())
			return n.Commit(ctx, nil, nil)
		}))
		synctest.Wait()
		require.Greater(t, renewed.Load(), int32(10))
		require.Equal(t, int32(1), released.Load())
	})
}

// Closing the stream ends the work, whose number becomes a gap.
func TestCloseEndsTheWork(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		started, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- s.Do(context.Background(), sequence.Operation{ID: "a"}, func(ctx context.Context, _ *sequence.Number[memsequence.Tx]) error {
				close(started)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		<-started
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, <-done, leasing.ErrClosed)
		e, err := store.Find(t.Context(), "s", "a")
		require.NoError(t, err)
		require.Equal(t, sequence.Gap, e.State)
		_, err = s.Lease(t.Context(), sequence.Operation{ID: "b"})
		require.ErrorIs(t, err, leasing.ErrClosed)
	})
}

func TestTrap_S08_WithoutHistoryADurationIsTheDefault(t *testing.T) {
	d := sequence.Durations{Default: 30 * time.Second, Floor: 5 * time.Second, Cap: 10 * time.Minute, Samples: 2}
	for _, c := range []struct {
		samples []time.Duration
		size    float64
		want    time.Duration
	}{
		{nil, 0, 30 * time.Second},
		{nil, 7, 30 * time.Second},
		{[]time.Duration{10 * time.Second, 20 * time.Second}, 0, 30 * time.Second},
		{[]time.Duration{10 * time.Second, 20 * time.Second}, 2, time.Minute},
		{[]time.Duration{time.Millisecond}, 1, 5 * time.Second},
		{[]time.Duration{0}, 1, 5 * time.Second},
		{[]time.Duration{time.Hour}, 1, 10 * time.Minute},
		{[]time.Duration{1 << 62, 1 << 62}, 1e9, 10 * time.Minute},
	} {
		require.Equal(t, c.want, d.Next(c.samples, c.size), "%v x %v", c.samples, c.size)
	}
}

func TestDurationsFollowTheOperationsOfTheirKind(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		took := func(id string, size float64) time.Duration {
			var lasts time.Duration
			require.NoError(t, s.Do(t.Context(), sequence.Operation{ID: id, Kind: "slow", Size: size}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
				e, err := store.Find(ctx, "s", id)
				lasts = e.ExpiresAt.Sub(e.LeasedAt)
				time.Sleep(time.Minute)
				return errors.Join(err, n.Commit(ctx, nil, nil))
			}))
			return lasts
		}
		require.Equal(t, 30*time.Second, took("a", 0))
		require.Equal(t, 2*time.Minute, took("b", 0))
		require.Equal(t, 4*time.Minute, took("c", 2))
	})
}

// watchedRecords checks that a waiter registers for wake-ups before it polls.
type watchedRecords struct {
	sequence.Records
	t       *testing.T
	watched bool
	wakeups chan struct{}
	lowest  atomic.Int64
}

func (o *watchedRecords) Watch(context.Context, string) (<-chan struct{}, error) {
	o.watched = true
	return o.wakeups, nil
}

func (o *watchedRecords) LowestOpen(context.Context, string) (int64, error) {
	require.True(o.t, o.watched, "a closing between the look and the registration would be missed")
	return o.lowest.Load(), nil
}

func TestTrap_S05_WaitingRegistersBeforeItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &watchedRecords{t: t, wakeups: make(chan struct{}, 1)}
		o.lowest.Store(3)
		require.NoError(t, sequence.Wait(t.Context(), o, "s", 3))
		began := time.Now()
		go func() {
			time.Sleep(10 * time.Minute)
			o.lowest.Store(5)
			time.Sleep(time.Microsecond)
			o.wakeups <- struct{}{}
		}()
		require.NoError(t, sequence.Wait(t.Context(), o, "s", 4))
		require.Less(t, time.Since(began)-10*time.Minute, time.Millisecond, "the wake-up woke nobody")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, sequence.Wait(ctx, o, "s", 9), context.DeadlineExceeded)
	})
}

func TestBadOptionsAreRefused(t *testing.T) {
	store := memsequence.New()
	for _, o := range []sequence.Options[memsequence.Tx]{
		{Durations: sequence.Durations{Default: time.Second}},
		{Durations: sequence.Durations{Cap: time.Second}},
		{Durations: sequence.Durations{Floor: time.Millisecond}},
		{Durations: sequence.Durations{Samples: -1}},
		{Lease: leasing.Options{RenewFraction: 2}},
	} {
		_, err := sequence.NewStream(store, "s", o)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
	_, err := sequence.NewStream(store, "", sequence.Options[memsequence.Tx]{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = sequence.NewStream[memsequence.Tx](nil, "s", sequence.Options[memsequence.Tx]{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	s, err := sequence.NewStream(store, "nobody has created it", sequence.Options[memsequence.Tx]{})
	require.NoError(t, err)
	_, err = s.Lease(t.Context(), sequence.Operation{ID: "a"})
	require.ErrorIs(t, err, sequence.ErrUnknownStream)
	require.ErrorIs(t, s.Do(t.Context(), sequence.Operation{ID: "a"}, nil), leasing.ErrInvalid)
	require.NoError(t, s.Close(t.Context()))
}

// missingReader is a store that has lost an entry.
type missingReader struct{ *memsequence.Store }

func (h missingReader) Read(ctx context.Context, req seqstore.ReadRequest) (seqstore.Page, error) {
	page, err := h.Store.Read(ctx, req)
	page.Entries = slices.DeleteFunc(page.Entries, func(e sequence.Entry) bool { return e.Seq == 2 })
	return page, err
}

// A reader does not silently skip a number.
func TestAReaderReportsANumberThatIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx]) {
		for _, op := range []string{"a", "b", "c"} {
			n, err := s.Lease(t.Context(), sequence.Operation{ID: op})
			require.NoError(t, err)
			require.NoError(t, n.Commit(t.Context(), nil, nil))
		}
		var seen []int64
		var failed error
		for e, err := range (sequence.Reader{Records: missingReader{store.Store}, Stream: "s"}).Read(t.Context(), 1) {
			if failed = err; err == nil {
				seen = append(seen, e.Seq)
			}
		}
		require.Equal(t, []int64{1}, seen)
		require.ErrorIs(t, failed, sequence.ErrNotFound)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unansweredStore is a store whose commits and recoveries fail with the given errors, in turn.
type unansweredStore struct {
	*memsequence.Store
	answers  []error // the last is repeated
	attempts int
}

func (u *unansweredStore) answer() error {
	u.attempts++
	return u.answers[min(u.attempts, len(u.answers))-1]
}

func (u *unansweredStore) Commit(context.Context, seqstore.CommitRequest, sequence.Write[memsequence.Tx]) (sequence.Entry, error) {
	return sequence.Entry{}, u.answer()
}

func (u *unansweredStore) Resolve(ctx context.Context, req seqstore.ResolveRequest, write sequence.Write[memsequence.Tx]) (sequence.Entry, error) {
	if req.Outcome != sequence.OutcomeRecovered {
		return u.Store.Resolve(ctx, req, write)
	}
	return sequence.Entry{}, u.answer()
}

// A commit that always fails with an unknown error is not retried forever, even if renewals succeed.
func TestTrap_T205_ACommitWithoutAnAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("an error that nothing knows")
		store := &unansweredStore{Store: memsequence.New(), answers: []error{odd}}
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{})
		require.NoError(t, err)
		began := time.Now()
		err = s.Do(context.Background(), sequence.Operation{ID: "o", Duration: time.Minute}, func(_ context.Context, n *sequence.Number[memsequence.Tx]) error {
			return n.Commit(context.Background(), []byte("x"), nil)
		})
		require.ErrorIs(t, err, odd)
		late := (*sequence.LateCommitError)(nil)
		require.ErrorAs(t, err, &late)
		require.Equal(t, sequence.SettledSaved, late.Settled, "the result is kept")
		require.LessOrEqual(t, time.Since(began), 2*time.Minute)

		// A cleaner counts such an error as a failure.
		c, err := sequence.NewCleaner(store, "s", sequence.CleanerOptions[memsequence.Tx]{MaxAttempts: 2})
		require.NoError(t, err)
		for range 20 {
			time.Sleep(time.Minute)
			_, err := c.Sweep(t.Context())
			require.NoError(t, err)
		}
		e, err := store.Find(t.Context(), "s", "o")
		require.NoError(t, err)
		require.Equal(t, sequence.ReasonRecoveryFailed, e.Reason)
		require.Contains(t, e.LastError, odd.Error())
		items, err := store.Manual(t.Context(), "s", 10)
		require.NoError(t, err)
		require.Len(t, items, 1)
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, s.Close(t.Context()))
	})
}

// The error of an ended context includes the last cause, and a request that may have been applied is not reported as
// "not applied".
func TestTrap_T205_TheLastCauseIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("an error that nothing knows")
		throttled := &leasing.ThrottledError{Err: errors.New("busy")}
		store := &unansweredStore{Store: memsequence.New()}
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{})
		require.NoError(t, err)
		for _, c := range []struct {
			answers    []error
			cause      error
			notApplied bool
		}{
			{[]error{odd, context.DeadlineExceeded}, odd, false},
			{[]error{odd, throttled}, throttled.Err, false},
			{[]error{throttled}, throttled, true},
			{[]error{throttled, odd, sequence.ErrRefused}, sequence.ErrRefused, true},
		} {
			store.answers, store.attempts = c.answers, 0
			n, err := s.Lease(t.Context(), sequence.Operation{ID: time.Now().String(), Duration: time.Minute})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = n.Commit(ctx, nil, nil)
			cancel()
			require.ErrorIs(t, err, c.cause)
			if !errors.Is(err, sequence.ErrRefused) {
				require.Equal(t, c.notApplied, abstractions.NotApplied(err), "%v", err)
			}
			require.NoError(t, n.Release(t.Context()))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, s.Close(t.Context()))
	})
}
