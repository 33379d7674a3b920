package sequencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requireSettlement settles a late result, and fails the test unless the settlement is as wanted.
func (f *fixture[Tx]) requireSettlement(s *sequence.Stream[Tx], e sequence.Entry, payload string, want sequence.Settlement) {
	settled, _, err := s.Settle(f.ctx, sequence.Unsettled{Seq: e.Seq, Op: e.Op, Token: e.Token, Payload: []byte(payload)}, f.insert(payload))
	assert.NoError(f, err)
	assert.Equal(f, want, settled)
}

// manualPayloads returns the payloads in the manual queue.
func (f *fixture[Tx]) manualPayloads() []string {
	f.Helper()
	items, err := f.store.Manual(f.ctx, stream, 1000)
	require.NoError(f, err)
	payloads := []string{}
	for _, item := range items {
		payloads = append(payloads, string(item.Payload))
	}
	return payloads
}

// A result that was reported as saved is committed, or is in the manual queue, regardless of the
// moment at which it came during a claim.
func trapT134[Tx any](f *fixture[Tx]) {
	s := f.writer(sequence.Options[Tx]{})
	var want []string

	// The result comes between a claim and its end: every outcome is then refused.
	for _, outcome := range []sequence.Outcome{sequence.OutcomeGap, sequence.OutcomeRecovered, seqstore.OutcomeFailed} {
		payload := "late for " + string(outcome)
		e := f.leaseExpired(payload)
		claim := f.claim(time.Minute)
		f.requireSettlement(s, e, payload, sequence.SettledSaved)
		req := resolution(claim, outcome, "half")
		req.MaxAttempts = 1
		_, err := f.store.Resolve(f.ctx, req, f.insert("half"))
		f.requireLate(err, sequence.Recovering)
		f.requireLate(f.store.ExtendClaim(f.ctx, seqstore.RenewRequest{Stream: stream, Seq: e.Seq, Token: claim.Token, Duration: time.Minute}), sequence.Recovering)
		f.requireSettlement(s, e, payload, sequence.SettledSaved)
		claim = f.claim(time.Minute)
		require.Equal(f, payload, string(claim.Work.Data), "the next claim sees it")
		f.requireSettlement(s, e, payload, sequence.SettledSaved)
		f.requireSettlement(s, e, "other "+payload, sequence.SettledQueued)
		f.resolve(claim, sequence.OutcomeRecovered, payload)
		want = append(want, payload)
	}

	// The result comes during a cleaner's step, for numbers with and without saved work.
	late := map[string]sequence.Entry{}
	for _, op := range []string{"nothing", "partial"} {
		late[op] = f.lease(op, 4*f.unit)
	}
	f.save(late["partial"], sequence.Partial, "half")
	sleep(4*f.unit + 20*time.Millisecond)
	c := f.cleaner(sequence.CleanerOptions[Tx]{Write: f.insertPayload, Steps: []sequence.Step{
		{Name: "slow", Recover: func(_ context.Context, e sequence.Entry) (sequence.Recovery, error) {
			if e.Work.Phase != sequence.Completed {
				f.requireSettlement(s, late[e.Op], e.Op, sequence.SettledSaved)
			}
			return sequence.Recovery{}, nil
		}},
		sequence.CommitCompleted(),
		sequence.FinishPartial(func(_ context.Context, e sequence.Entry) ([]byte, bool, error) { return e.Work.Data, true, nil }),
	}})
	require.Equal(f, sequence.Report{Closed: 2, Recovered: 2}, f.sweep(c))
	want = append(want, "nothing", "partial")

	// The release of a number with completed work does not make a gap, but ends the lease, so that the
	// cleaner need not wait.
	given := f.lease("given up", time.Hour)
	f.save(given, sequence.Completed, "given up")
	f.release(given)
	f.release(given)
	failed := errors.New("the commit failed")
	require.ErrorIs(f, s.Do(f.ctx, sequence.Operation{ID: "failed", Duration: time.Hour}, func(ctx context.Context, n *sequence.Number[Tx]) error {
		return errors.Join(n.Save(ctx, sequence.Completed, []byte("failed")), failed)
	}), failed)
	sleep(20 * time.Millisecond)
	require.Equal(f, sequence.Report{Closed: 2, Recovered: 2}, f.sweep(c))
	want = append(want, "given up", "failed")
	require.ElementsMatch(f, want, f.db.Rows(f.T))

	// A cleaner that decides against the work leaves the decision to a person.
	queued := f.manualPayloads()
	unwanted := f.leaseExpired("unwanted")
	f.save(unwanted, sequence.Completed, "unwanted")
	f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{Select: sequence.ByLoad(func(context.Context) sequence.Load { return sequence.HighLoad })}))
	refused := f.leaseExpired("refused")
	f.save(refused, sequence.Completed, "refused")
	f.sweep(f.cleaner(sequence.CleanerOptions[Tx]{MaxAttempts: 1, Write: func(context.Context, Tx, sequence.Entry) error { return failed }}))
	require.Equal(f, sequence.Gap, f.find("unwanted").State)
	require.Equal(f, sequence.ReasonRecoveryFailed, f.find("refused").Reason)
	require.ElementsMatch(f, append(queued, "unwanted", "refused"), f.manualPayloads())
}

// Late writers settle, save and release at random moments during the claims of cleaners in other
// processes. In the end each result is in the place that was reported to its writer.
func lateWritersAgainstCleaners[Tx any](f *fixture[Tx]) {
	const cleaners, numbers = 3, 30
	working, stop := context.WithCancel(f.ctx)
	defer stop()
	var cleaning, writing sync.WaitGroup
	pause := func() { sleep(time.Duration(rand.Int64N(int64(20 * time.Millisecond)))) }
	options := sequence.CleanerOptions[Tx]{Write: f.insertPayload, Interval: time.Millisecond, RetryAfter: time.Millisecond, MaxAttempts: 1 << 30, Steps: []sequence.Step{
		{Name: "slow", Recover: func(context.Context, sequence.Entry) (sequence.Recovery, error) {
			pause()
			return sequence.Recovery{}, nil
		}},
		sequence.CommitCompleted(),
		sequence.FinishPartial(func(_ context.Context, e sequence.Entry) ([]byte, bool, error) {
			pause()
			return e.Work.Data, true, nil
		}),
		sequence.MakeGap(),
	}}
	for range cleaners {
		c, err := sequence.NewCleaner(f.db.Open(f.T), stream, options)
		require.NoError(f, err)
		cleaning.Go(func() {
			_ = c.Run(working)
			assert.NoError(f, c.Close(context.WithoutCancel(f.ctx)))
		})
	}
	s := f.writer(sequence.Options[Tx]{Write: f.insertPayload})
	settlements := make([]sequence.Settlement, numbers)
	for i := range numbers {
		e := f.lease(fmt.Sprint(i), time.Duration(1+rand.IntN(20))*time.Millisecond)
		writing.Go(func() {
			save := func(phase sequence.Phase, data string) bool {
				return f.store.Save(f.ctx, seqstore.SaveRequest{Stream: stream, Seq: e.Seq, Token: e.Token, Work: sequence.Work{Phase: phase, Data: []byte(data)}}) == nil
			}
			if i%3 == 0 {
				save(sequence.Partial, "half of "+e.Op)
			}
			pause()
			if i%5 == 4 {
				if save(sequence.Completed, e.Op) {
					settlements[i] = sequence.SettledSaved
				}
				assert.NoError(f, f.store.Release(f.ctx, seqstore.ReleaseRequest{Stream: stream, Seq: e.Seq, Token: e.Token}))
				return
			}
			pause()
			settled, _, err := s.Settle(f.ctx, sequence.Unsettled{Seq: e.Seq, Op: e.Op, Token: e.Token, Payload: []byte(e.Op)}, nil)
			if assert.NoError(f, err) {
				settlements[i] = settled
			}
		})
	}
	writing.Wait()
	f.await(func() bool { return f.status().Open == 0 })
	stop()
	cleaning.Wait()
	rows := f.db.Rows(f.T)
	for i, settled := range settlements {
		switch settled {
		case sequence.SettledSaved, sequence.SettledCommitted:
			require.Contains(f, rows, fmt.Sprint(i), "it was reported as %s", settled)
		case sequence.SettledQueued:
			require.Contains(f, f.manualPayloads(), fmt.Sprint(i))
		}
	}
}
