package batch

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAloneNothingWaits(t *testing.T) {
	for _, repeatable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			began := time.Now()
			for n := range 10 {
				op := &number{n: n, repeatable: repeatable}
				got, err := op.outcome(s.Do(within(t, time.Second), op))
				require.NoError(t, err)
				require.Equal(t, n, got)
			}
			require.Zero(t, time.Since(began))
			require.Equal(t, 10, s.count())
			synctest.Wait()
			s.requireIdle()
		})
	}
}

func TestOperationsMadeMeanwhileShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				got, err := s.do(within(t, time.Second), n)
				assert.NoError(t, err)
				assert.Equal(t, n, got, "to each its own reply")
			})
			synctest.Wait()
		}
		require.Equal(t, usualCalls, s.count())
		close(gate)
		all.Wait()
		require.Equal(t, usualCalls+1, s.count())
		require.Len(t, s.calls[usualCalls], 100-usualCalls)
		require.True(t, slices.IsSorted(s.calls[usualCalls]), "first come, first served")
	})
}

func TestBatchesKeepTheirOrderInCallsOfABoundedSize(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 511, 512, 513, 1000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				ops := numbers(n)
				for i, err := range s.doAll(within(t, time.Second), ops) {
					got, err := ops[i].outcome(err)
					require.NoError(t, err)
					require.Equal(t, i, got)
				}
				require.Equal(t, (n+MaxOperations-1)/MaxOperations, s.count())
				for _, call := range s.calls {
					require.LessOrEqual(t, len(call), MaxOperations)
				}
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(s.sent()))), n, "each once")
			})
		})
	}
}

func TestOperationsOfABatchGoToTheirOwnServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := []*server{newServer(t), newServer(t), newServer(t)}
		servers[1].hang(1)
		ops := numbers(1000)
		errs := DoAll(within(t, time.Second), ops, func(op *number) (*Batcher[*number], error) {
			if op.n%4 == 3 {
				return nil, abstractions.ErrDenied
			}
			return servers[op.n%4].Batcher, nil
		})
		for i, err := range errs {
			got, err := ops[i].outcome(err)
			switch i % 4 {
			case 1:
				requireUnknown(t, err)
			case 3:
				require.ErrorIs(t, err, abstractions.ErrDenied)
			default:
				require.NoError(t, err, "a server that is well, beside one that is not")
				require.Equal(t, i, got)
			}
		}
		for _, s := range servers {
			require.Equal(t, 1, s.count())
			require.Len(t, s.sent(), 250)
		}
	})
}

// requireUnknown requires an error that leaves the outcome unknown.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, abstractions.NotApplied(err))
}

func TestTrap_T66_WhoLeavesEarlyHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls + 1)
		ctx, leave := context.WithCancel(within(t, time.Minute))
		var first, others sync.WaitGroup
		for n := range usualCalls {
			first.Go(func() { _, _ = s.do(within(t, 10*time.Millisecond), n) })
			synctest.Wait()
		}
		gone := make(chan error, 1)
		go func() { _, err := s.do(ctx, 100); gone <- err }()
		synctest.Wait()
		for n := range 5 {
			others.Go(func() {
				got, err := s.do(within(t, time.Minute), n)
				assert.NoError(t, err)
				assert.Equal(t, n, got)
			})
		}
		first.Wait() // then the next call is under way, with all six requests
		synctest.Wait()
		require.Len(t, s.sent(), usualCalls+6)
		began := time.Now()
		leave()
		err := <-gone
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.False(t, abstractions.NotApplied(err), "it was sent, maybe")
		require.Zero(t, time.Since(began), "who leaves does not wait")
		close(gate)
		others.Wait()
	})
}

func TestRequestsThatWereNotSentAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		var hung sync.WaitGroup
		for n := range usualCalls {
			hung.Go(func() { _, _ = s.do(within(t, time.Minute), n) })
			synctest.Wait()
		}
		_, err := s.do(cancelledAfter(t, maxQueueDelay/2), 8)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.True(t, abstractions.NotApplied(err))
		for _, err := range s.doAll(cancelledAfter(t, maxQueueDelay/4), numbers(300)) {
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, abstractions.NotApplied(err))
		}
		close(gate)
		hung.Wait()
		<-time.After(time.Minute)
		require.Len(t, s.sent(), usualCalls)
		s.requireIdle()
	})
}

func TestRequestsAreNotSentAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		done := make(chan *Request[*number], usualCalls+1)
		for n := range usualCalls + 1 {
			r := &Request[*number]{Ops: []*number{{n: n}}, Context: t.Context(), By: time.Now().Add(maxQueueDelay / 2), Tag: n, Done: func(r *Request[*number]) { done <- r }}
			if n < usualCalls {
				r.By = time.Now().Add(time.Minute)
			}
			require.NoError(t, s.Start(r))
			synctest.Wait()
		}
		<-time.After(maxQueueDelay / 2)
		close(gate)
		for range cap(done) {
			r := <-done
			if r.Tag < usualCalls {
				require.NoError(t, r.Ops[0].err)
				continue
			}
			require.ErrorIs(t, r.Ops[0].err, abstractions.ErrUnavailable)
			require.True(t, abstractions.NotApplied(r.Ops[0].err))
			var late interface{ Timeout() bool } // T189: a timeout, and not an answer from the backend
			require.ErrorAs(t, r.Ops[0].err, &late)
			require.True(t, late.Timeout())
		}
		require.Len(t, s.sent(), usualCalls)
	})
}

func TestOfABatchThereIsWhatCameInTime(t *testing.T) {
	for range 20 { // a select with two ready cases picks either
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			s.hang(1)
			ops := numbers(4 * MaxOperations)
			answered := 0
			for i, err := range s.doAll(within(t, time.Second), ops) {
				if err != nil {
					requireUnknown(t, err)
					continue
				}
				if got, err := ops[i].outcome(nil); err == nil {
					answered++
					require.Equal(t, i, got)
				} else {
					requireUnknown(t, err)
				}
			}
			require.Equal(t, 3*MaxOperations, answered)
		})
	}
}

// In the first few milliseconds a caller does not check its context, since most replies arrive in
// that time.
func TestLeavingIsSeenSoon(t *testing.T) {
	for _, after := range []time.Duration{0, 1, fastAnswer - 1, fastAnswer, fastAnswer + 1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			gate := make(chan struct{})
			defer close(gate)
			s.answer = s.through([]chan struct{}{gate})
			began := time.Now()
			_, err := s.do(cancelledAfter(t, after), 1)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, max(after, fastAnswer), time.Since(began))
		})
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			gate := make(chan struct{})
			defer close(gate)
			s.answer = s.through([]chan struct{}{gate})
			began := time.Now()
			_, err := s.do(within(t, after+1), 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, after+1, time.Since(began), "a deadline is known")
		})
	}
}

// slowContext is a cancelled context whose Done takes a second, as if its goroutine were not scheduled.
type slowContext struct{ context.Context }

func (slowContext) Done() <-chan struct{} {
	<-time.After(time.Second)
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (slowContext) Err() error { return context.Canceled }

func TestAnswersThatAreThereCountAlthoughTheContextHasEnded(t *testing.T) {
	for range 20 { // as above
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			ctx := slowContext{within(t, time.Hour)}
			ops := numbers(4 * MaxOperations)
			for i, err := range s.doAll(ctx, ops) {
				got, err := ops[i].outcome(err)
				require.NoError(t, err)
				require.Equal(t, i, got)
			}
			got, err := s.do(ctx, 7)
			require.NoError(t, err)
			require.Equal(t, 7, got)
		})
	}
}

// A reply that comes after its caller has left does not reach another caller.
func TestLateRepliesReachNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gates := make([]chan struct{}, 100)
		for i := range gates {
			gates[i] = make(chan struct{})
		}
		s.answer = s.through(gates)
		for call := 0; call < len(gates); call += 2 {
			_, err := s.do(cancelledAfter(t, time.Millisecond), call)
			require.ErrorIs(t, err, context.Canceled)
			next := make(chan int, 1)
			go func() {
				got, err := s.do(within(t, time.Minute), call+1)
				assert.NoError(t, err)
				next <- got
			}()
			synctest.Wait()
			close(gates[call])
			synctest.Wait()
			require.Empty(t, next)
			close(gates[call+1])
			require.Equal(t, call+1, <-next)
			synctest.Wait()
		}
	})
}

type traced struct{}

func TestCallEndsWithTheLastOfItsSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		inner := s.answer
		var last context.Context
		s.answer = func(ctx context.Context, call int) error {
			last = ctx //nolint:fatcontext // only the test inspects it
			return inner(ctx, call)
		}
		ctx, cancel := context.WithCancel(context.WithValue(within(t, time.Minute), traced{}, "span"))
		go func() { _, _ = s.do(ctx, 1) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.NoError(t, last.Err(), "its sender has left, the call goes on")
		require.Equal(t, "span", last.Value(traced{}), "alone, a call is its sender's to trace")
		go func() { _, _ = s.do(within(t, time.Minute), 2) }()
		synctest.Wait()

		began := time.Now()
		var all sync.WaitGroup
		for n := range 5 {
			all.Go(func() {
				_, err := s.do(context.WithValue(within(t, time.Duration(n+1)*time.Minute), traced{}, n), n)
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		until, ok := last.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Minute, until.Sub(began))
		require.Nil(t, last.Value(traced{}), "together, they are nobody's")
		require.ErrorIs(t, last.Err(), context.Canceled, "it is over")
	})
}
