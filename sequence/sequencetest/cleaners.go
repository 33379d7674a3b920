package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (f *fixture[Tx]) cleaner(o sequence.CleanerOptions[Tx]) *sequence.Cleaner[Tx] {
	f.Helper()
	c, err := sequence.NewCleaner(f.store, stream, o)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, c.Close(context.Background())) })
	return c
}

func (f *fixture[Tx]) sweep(c *sequence.Cleaner[Tx]) sequence.Report {
	f.Helper()
	r, err := c.Sweep(f.ctx)
	require.NoError(f, err)
	return r
}

func (f *fixture[Tx]) save(e sequence.Entry, phase sequence.Phase, data string) {
	f.Helper()
	require.NoError(f, f.store.Save(f.ctx, seqstore.SaveRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Work: sequence.Work{Phase: phase, Data: []byte(data)}}))
}

// insertPayload is the application's own write for any entry.
func (f *fixture[Tx]) insertPayload(ctx context.Context, tx Tx, e sequence.Entry) error {
	return f.db.Insert(ctx, tx, string(e.Payload))
}

func theRecoveryChainEndsEveryNumber[Tx any](f *fixture[Tx]) {
	completed, partial, hopeless, nothing := f.leaseExpired("completed"), f.leaseExpired("partial"), f.leaseExpired("hopeless"), f.leaseExpired("nothing")
	f.save(completed, sequence.Completed, "c")
	f.save(partial, sequence.Partial, "half")
	f.save(hopeless, sequence.Partial, "hopeless")
	var order []int64
	c := f.cleaner(sequence.CleanerOptions[Tx]{
		Owner: "cleaner",
		Write: f.insertPayload,
		Steps: []sequence.Step{
			{Name: "watching", Recover: func(_ context.Context, e sequence.Entry) (sequence.Recovery, error) {
				order = append(order, e.Seq)
				return sequence.Recovery{}, nil
			}},
			sequence.FinishPartial(func(_ context.Context, e sequence.Entry) ([]byte, bool, error) {
				return append(e.Work.Data, " and the rest"...), string(e.Work.Data) != "hopeless", nil
			}),
			sequence.CommitCompleted(),
			sequence.MakeGap(),
		},
	})
	require.Equal(f, sequence.Report{Closed: 4, Recovered: 2, Gaps: 2}, f.sweep(c))
	require.Equal(f, []int64{1, 2, 3, 4}, order)
	require.ElementsMatch(f, []string{"c", "half and the rest"}, f.db.Rows(f.T))
	require.Equal(f, sequence.ReasonExpired, f.find("hopeless").Reason)
	require.Equal(f, sequence.Gap, f.find("nothing").State)
	require.Equal(f, int64(4), nothing.Seq)
	by := f.read(false)[f.find("partial").ReplacedBy-1]
	require.Equal(f, "half and the rest", string(by.Payload))
	require.Equal(f, "cleaner", by.Owner)
	require.Equal(f, partial.Seq, by.Origin)
	require.Equal(f, int64(6), f.status().Watermark)
	require.Equal(f, sequence.Report{}, f.sweep(c))
}

// No number is lost if steps, or the caller's own write, fail or panic.
func aFailedStepIsTriedAgain[Tx any](f *fixture[Tx]) {
	failing, panicking, writing := f.leaseExpired("failing"), f.leaseExpired("panicking"), f.leaseExpired("writing")
	for _, e := range []sequence.Entry{failing, panicking, writing} {
		f.save(e, sequence.Completed, e.Op)
	}
	var healed atomic.Bool
	options := sequence.CleanerOptions[Tx]{
		RetryAfter: time.Millisecond, MaxAttempts: 1 << 30,
		Write: func(ctx context.Context, tx Tx, e sequence.Entry) error {
			if err := f.insertPayload(ctx, tx, e); err != nil || healed.Load() {
				return err
			}
			return errors.New("its own write")
		},
		Steps: []sequence.Step{{Name: "moody", Recover: func(_ context.Context, e sequence.Entry) (sequence.Recovery, error) {
			switch {
			case e.Op == "failing":
				return sequence.Recovery{}, errors.New("bad luck")
			case e.Op == "panicking" && !healed.Load():
				panic("bad code")
			}
			return sequence.Recovery{}, nil
		}}, sequence.CommitCompleted()},
	}
	// The cleaner runs until each number has failed at least once, in any order.
	ctx, stop := context.WithCancel(f.ctx)
	c := f.cleaner(options)
	ended := make(chan error, 1)
	options.Interval = time.Millisecond
	go func() { ended <- c.Run(ctx) }()
	f.await(func() bool {
		return f.find("failing").Attempts > 0 && f.find("panicking").Attempts > 0 && f.find("writing").Attempts > 0
	})
	stop()
	require.ErrorIs(f, <-ended, context.Canceled)
	require.Contains(f, f.find("failing").LastError, "moody: bad luck")
	require.Contains(f, f.find("panicking").LastError, "bad code")
	require.Contains(f, f.find("writing").LastError, "its own write")
	require.Equal(f, int64(3), f.status().Last, "no number was taken")
	require.Equal(f, int64(0), f.status().Watermark, "no number was lost")
	healed.Store(true)
	options.MaxAttempts = 3
	last := f.cleaner(options)
	f.await(func() bool {
		f.sweep(last)
		return f.status().Open == 0
	})
	require.Equal(f, sequence.ReasonRecoveryFailed, f.find("failing").Reason)
	require.GreaterOrEqual(f, f.find("failing").Attempts, 3)
	require.Equal(f, sequence.Recovered, f.find("panicking").State)
	require.Equal(f, sequence.Recovered, f.find("writing").State)
	require.ElementsMatch(f, []string{"panicking", "writing"}, f.db.Rows(f.T))
}

func theLoadChoosesTheSteps[Tx any](f *fixture[Tx]) {
	load := sequence.LowLoad
	var called []string
	step := func(name string) sequence.Step {
		return sequence.Step{Name: name, Recover: func(context.Context, sequence.Entry) (sequence.Recovery, error) {
			called = append(called, name)
			return sequence.Recovery{}, nil
		}}
	}
	c := f.cleaner(sequence.CleanerOptions[Tx]{
		Steps:  []sequence.Step{step("cheap"), step("dear")},
		Select: sequence.ByLoad(func(context.Context) sequence.Load { return load }, "dear"),
	})
	for l, want := range map[sequence.Load][]string{sequence.LowLoad: {"cheap", "dear"}, sequence.MediumLoad: {"cheap"}, sequence.HighLoad: nil, sequence.UnknownLoad: nil} {
		load, called = l, nil
		f.leaseExpired(fmt.Sprint("op", l))
		require.Equal(f, sequence.Report{Closed: 1, Gaps: 1}, f.sweep(c))
		require.Equal(f, want, called)
	}
}

func hooksThatFailRunAgain[Tx any](f *fixture[Tx]) {
	var runs, others atomic.Int32
	hooks := []sequence.Hook{
		func(_ context.Context, e sequence.Entry) error {
			if assert.Equal(f, "op", e.Op); runs.Add(1) < 3 {
				return errors.New("the lock server is away")
			}
			return nil
		},
		func(context.Context, sequence.Entry) error {
			if others.Add(1) == 1 {
				panic("first time")
			}
			return nil
		},
	}
	f.leaseExpired("op")
	first := f.cleaner(sequence.CleanerOptions[Tx]{Hooks: hooks})
	f.sweep(first)
	require.Equal(f, sequence.Gap, f.find("op").State, "hooks block no sweep")
	require.True(f, f.find("op").Uncleaned)
	second := f.cleaner(sequence.CleanerOptions[Tx]{Hooks: hooks}) // as if in another process
	f.sweep(second)
	require.False(f, f.find("op").Uncleaned)
	ran := runs.Load()
	require.Equal(f, int32(3), ran)
	f.sweep(second)
	require.Equal(f, ran, runs.Load(), "once they have succeeded they don't run again")
}

// Two processes find a cascade at the same time: one of them reports the mode, durations are
// doubled once, and recovery mode ends when the backlog is gone.
func aCascadeIsHandledOnce[Tx any](f *fixture[Tx]) {
	const numbers = 24
	for i := range numbers {
		f.lease(fmt.Sprint(i), time.Millisecond)
	}
	sleep(20 * time.Millisecond)
	var on, off, doubled atomic.Int32
	var order []int64
	var mu sync.Mutex
	options := sequence.CleanerOptions[Tx]{
		Batch: 4, BatchPause: 5 * time.Millisecond, ClaimFor: time.Minute,
		OnMode: func(_ context.Context, recovery bool) {
			if recovery {
				on.Add(1)
			} else {
				off.Add(1)
			}
		},
		Steps: []sequence.Step{{Name: "looking", Recover: func(_ context.Context, e sequence.Entry) (sequence.Recovery, error) {
			mu.Lock()
			order = append(order, e.Seq)
			first := len(order) == 1
			mu.Unlock()
			if first {
				e := f.lease("during", time.Minute)
				if e.ExpiresAt.Sub(e.LeasedAt).Round(time.Second) == 2*time.Minute {
					doubled.Add(1)
				}
			}
			return sequence.Recovery{}, nil
		}}},
	}
	var group sync.WaitGroup
	for range 2 {
		c := f.cleaner(options)
		group.Go(func() {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && f.status().Expired > 0; {
				_, err := c.Sweep(f.ctx)
				assert.NoError(f, err)
				sleep(time.Millisecond)
			}
		})
	}
	group.Wait()
	require.Equal(f, int32(1), doubled.Load())
	require.GreaterOrEqual(f, on.Load(), int32(1))
	require.Less(f, on.Load()-off.Load(), int32(2), "it was begun %d times and ended %d times", on.Load(), off.Load())
	require.Len(f, order, numbers)
	for i, seq := range order {
		require.Equal(f, int64(i+1), seq, "claims out of order: %v", order)
	}
	f.sweep(f.cleaner(options))
	require.True(f, f.status().RecoveryUntil.IsZero(), "it ends early")
}

// A recovery that takes longer than ClaimFor keeps its claim.
func aSlowRecoveryKeepsItsClaim[Tx any](f *fixture[Tx]) {
	f.leaseExpired("op")
	c := f.cleaner(sequence.CleanerOptions[Tx]{ClaimFor: 4 * f.unit, Steps: []sequence.Step{{Name: "slow", Recover: func(ctx context.Context, _ sequence.Entry) (sequence.Recovery, error) {
		sleep(10 * f.unit)
		return sequence.Recovery{Outcome: sequence.OutcomeRecovered, Payload: []byte("x")}, ctx.Err()
	}}}})
	var report sequence.Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = c.Sweep(f.ctx)
	}()
	sleep(6 * f.unit)
	_, ok := f.tryClaim(time.Minute)
	<-done
	require.NoError(f, err)
	require.False(f, ok, "its claim has lapsed")
	require.Equal(f, 1, report.Recovered)
}

func theCleanerRunsUntilItIsStopped[Tx any](f *fixture[Tx]) {
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	c := f.cleaner(sequence.CleanerOptions[Tx]{Interval: 10 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s := f.writer(sequence.Options[Tx]{})
	dead := f.lease("dead", f.unit)
	n, err := s.Lease(f.ctx, sequence.Operation{ID: "waiting", Duration: time.Minute})
	require.NoError(f, err)
	require.NoError(f, n.Wait(f.ctx), "a dead writer blocks no other for ever")
	require.Equal(f, sequence.Gap, f.find(dead.Op).State)
	require.NoError(f, n.Commit(f.ctx, []byte("x"), nil))
	stop()
	require.ErrorIs(f, <-ended, context.Canceled)
}

// Other cleaners need not wait for the end of a claim whose cleaner has stopped.
func aStoppedCleanerGivesItsClaimBack[Tx any](f *fixture[Tx]) {
	f.leaseExpired("half done")
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	stopped := f.cleaner(sequence.CleanerOptions[Tx]{ClaimFor: time.Hour, Steps: []sequence.Step{{Name: "slow", Recover: func(work context.Context, _ sequence.Entry) (sequence.Recovery, error) {
		stop()
		<-work.Done()
		return sequence.Recovery{}, work.Err()
	}}}})
	_, err := stopped.Sweep(ctx)
	require.ErrorIs(f, err, context.Canceled)
	e := f.find("half done")
	require.Equal(f, sequence.Recovering, e.State)
	require.Zero(f, e.Attempts, "it has not failed")
	require.Less(f, e.ClaimUntil.Sub(f.status().Now), time.Minute)
	sleep(5 * time.Millisecond)
	store := &faultyStore[Tx]{Store: f.store}
	next, err := sequence.NewCleaner[Tx](store, stream, sequence.CleanerOptions[Tx]{})
	require.NoError(f, err)
	f.sweep(next)
	require.NoError(f, next.Close(f.ctx))
	require.Equal(f, sequence.Gap, f.find("half done").State)
	require.Zero(f, store.releasedClaims.Load(), "a claim that has ended is not given back")
}

// A cleaner that is stopped while a claim request is under way doesn't know whether it has the
// claim, so it releases the claim.
func aClaimThatWasCutOffIsGivenBack[Tx any](f *fixture[Tx]) {
	f.leaseExpired("op")
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	c, err := sequence.NewCleaner[Tx](&cancelingStore[Tx]{f.store, stop}, stream, sequence.CleanerOptions[Tx]{ClaimFor: time.Hour})
	require.NoError(f, err)
	_, err = c.Sweep(ctx)
	require.ErrorIs(f, err, context.Canceled)
	require.Equal(f, sequence.Recovering, f.find("op").State)
	f.await(func() bool { return !f.find("op").ClaimUntil.After(f.status().Now) })
	require.Zero(f, f.find("op").Attempts)
	require.NoError(f, c.Close(f.ctx))
	f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{}))
	require.Equal(f, sequence.Gap, f.find("op").State)
}

// cancelingStore is a store whose answer to a claim is lost, because the caller's context has
// ended.
type cancelingStore[Tx any] struct {
	sequence.Store[Tx]
	leave func()
}

func (s *cancelingStore[Tx]) Claim(ctx context.Context, req seqstore.ClaimRequest) (sequence.Entry, bool, error) {
	_, _, err := s.Store.Claim(ctx, req)
	s.leave()
	<-ctx.Done()
	return sequence.Entry{}, false, errors.Join(ctx.Err(), err)
}

func readersSeeOneOrder[Tx any](f *fixture[Tx]) {
	const numbers = 30
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	var group sync.WaitGroup
	seen := make([][]string, 3)
	for i := range seen {
		group.Go(func() {
			reader := sequence.Reader{Records: f.store, Stream: stream, Page: 7, Sealed: i == 2}
			for e, err := range reader.Follow(ctx, 1) {
				if err != nil {
					assert.ErrorIs(f, err, context.Canceled)
					return
				}
				state := e.State
				if state == sequence.Sealed {
					state = sequence.Gap
				}
				if seen[i] = append(seen[i], fmt.Sprintf("%d %s %s", e.Seq, state, e.Payload)); len(seen[i]) == numbers {
					return
				}
			}
		})
	}
	for i := range numbers {
		e := f.lease(fmt.Sprint(i), time.Minute)
		if i%4 == 3 {
			f.release(e)
		} else {
			f.commit(e, fmt.Sprint(i))
		}
		if i%10 == 9 {
			f.seal(0)
		}
	}
	group.Wait()
	require.Len(f, seen[0], numbers)
	require.Equal(f, seen[0], seen[1])
	require.Equal(f, seen[0], seen[2])
	var replay []int64
	for e, err := range (sequence.Reader{Records: f.store, Stream: stream, Page: 4}).Read(f.ctx, 5) {
		require.NoError(f, err)
		replay = append(replay, e.Seq)
	}
	require.Len(f, replay, numbers-4)
	require.Equal(f, int64(5), replay[0])
	gaps, err := (sequence.Reader{Records: f.store, Stream: stream}).Gaps(f.ctx, 1, 10)
	require.NoError(f, err)
	require.Empty(f, gaps, "all are sealed")
}
