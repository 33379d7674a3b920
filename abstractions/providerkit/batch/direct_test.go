package batch

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goroutine returns the ID of the calling goroutine.
func goroutine() string {
	var text [64]byte
	return string(bytes.Fields(text[:runtime.Stack(text[:], false)])[1])
}

func TestALoneCallerSendsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var sender string
		var took time.Duration
		s.answer = func(context.Context, int) error {
			sender = goroutine()
			<-time.After(took)
			return nil
		}
		directly := func(op *number) bool {
			require.NoError(t, s.Do(within(t, time.Minute), op))
			require.Equal(t, sender == goroutine(), s.last)
			return s.last
		}
		require.True(t, directly(&number{repeatable: true}))
		require.False(t, directly(&number{}), "it may be sent only once")
		require.True(t, directly(&number{repeatable: true}))
		took = fastAnswer + 1
		require.True(t, directly(&number{repeatable: true}))
		require.False(t, directly(&number{repeatable: true}), "the server is slow")
		took = fastAnswer
		require.False(t, directly(&number{repeatable: true}), "it was slow")
		require.True(t, directly(&number{repeatable: true}))

		s.direct = 0
		require.False(t, directly(&number{repeatable: true}), "calls ignore the deadline")
	})
}

func TestCallersWaitForADirectCallAsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.answer = func(context.Context, int) error { <-time.After(time.Millisecond); return nil }
		began := time.Now()
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				op := &number{n: n, repeatable: true}
				got, err := op.outcome(s.Do(within(t, time.Minute), op))
				assert.NoError(t, err)
				assert.Equal(t, n, got)
			})
		}
		all.Wait()
		require.Equal(t, 2*time.Millisecond, time.Since(began))
		require.LessOrEqual(t, s.count(), 2*usualCalls)
		synctest.Wait()
		s.requireIdle()
	})
}

// A direct call that takes too long is repeated by a worker, and its caller need not wait for the
// repetition.
func TestADirectCallIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		ctx  func(t *testing.T) context.Context
		want time.Duration
	}{
		"cancelled before": {func(t *testing.T) context.Context { return cancelledAfter(t, directTime/2) }, directTime},
		"cancelled after":  {func(t *testing.T) context.Context { return cancelledAfter(t, 3*directTime) }, 3 * directTime},
		"a deadline":       {func(t *testing.T) context.Context { return within(t, directTime/2) }, directTime / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.hang(10)
				began := time.Now()
				op := &number{repeatable: true}
				_, err := op.outcome(s.Do(test.ctx(t), op))
				require.Error(t, err)
				require.False(t, abstractions.NotApplied(err), "it was sent")
				require.Equal(t, test.want, time.Since(began))
			})
		})
	}
}

func TestADirectCallThatHangsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.hang(1)
		began := time.Now()
		op := &number{n: 7, repeatable: true}
		got, err := op.outcome(s.Do(within(t, time.Minute), op))
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Equal(t, directTime, time.Since(began))
		require.Equal(t, []int{7, 7}, s.sent())
	})
}

// With UntilItLeaves a caller sends once, and under its own context.
func TestADirectCallMayLastUntilItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.direct = UntilItLeaves
		ctx := cancelledAfter(t, 10*directTime)
		s.answer = func(call context.Context, _ int) error {
			<-call.Done()
			return call.Err()
		}
		began := time.Now()
		op := &number{repeatable: true}
		_, err := op.outcome(s.Do(ctx, op))
		require.Equal(t, context.Canceled, err)
		require.Equal(t, 10*directTime, time.Since(began))
		s.answer = func(call context.Context, _ int) error {
			require.NoError(t, call.Err())
			return nil
		}
		_, err = op.outcome(s.Do(within(t, time.Minute), op))
		require.NoError(t, err, "the server is slow: a worker sends it")
		require.Len(t, s.sent(), 2)
	})
}

// The context of a direct call ends at its limit, and the context of the next call does not.
func TestTheContextOfADirectCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		for range 10 {
			hang := true
			s.answer = func(ctx context.Context, _ int) error {
				if !hang {
					return ctx.Err()
				}
				hang = false
				require.NoError(t, ctx.Err())
				<-ctx.Done()
				return ctx.Err()
			}
			for range 10 { // the first of them hangs, and is repeated
				began := time.Now()
				hung := hang
				op := &number{n: 7, repeatable: true}
				got, err := op.outcome(s.Do(within(t, time.Minute), op))
				require.NoError(t, err)
				require.Equal(t, 7, got)
				if hung {
					require.Equal(t, directTime, time.Since(began))
				} else {
					require.Zero(t, time.Since(began))
				}
			}
		}
	})
}

// A direct call that fails at once is not repeated: its caller decides about a retry.
func TestADirectCallThatFailsIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.answer = func(context.Context, int) error { return abstractions.ErrDenied }
		op := &number{repeatable: true}
		_, err := op.outcome(s.Do(within(t, time.Minute), op))
		require.Equal(t, abstractions.ErrDenied, err)
		require.Len(t, s.sent(), 1)
	})
}

// An operation that was sent before, without an answer, may already have been applied.
func TestTrap_T71_WhatWasSentBeforeStaysUnknown(t *testing.T) {
	unsent := providerkit.MarkNotApplied(abstractions.ErrUnavailable)
	for name, second := range map[string]error{
		"refused":   unsent,
		"throttled": abstractions.ErrThrottled,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.hang(1)
				first := s.answer
				s.answer = func(ctx context.Context, call int) error {
					if call == 1 {
						return first(ctx, call)
					}
					return second
				}
				op := &number{repeatable: true}
				_, err := op.outcome(s.Do(within(t, time.Minute), op))
				require.ErrorIs(t, err, abstractions.ErrUnavailable)
				require.False(t, abstractions.NotApplied(err))
				require.NotErrorIs(t, err, abstractions.ErrThrottled)
			})
		})
	}
	require.True(t, abstractions.NotApplied(withEarlierOutcome(nil, unsent)))
	require.True(t, abstractions.NotApplied(withEarlierOutcome(unsent, unsent)))
	require.NoError(t, withEarlierOutcome(abstractions.ErrUnavailable, nil))
}

// The outcome also stays unknown if the repetition was withdrawn, or if Close made it fail, before
// it was sent.
func TestTrap_T71_WhatWasSentBeforeStaysUnknownWhenItIsNotSentAgain(t *testing.T) {
	for name, end := range map[string]func(s *server, leave func()){
		"closed":    func(s *server, _ func()) { go s.Close() },
		"withdrawn": func(_ *server, leave func()) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				gate := s.hang(10)
				ctx, leave := context.WithCancel(within(t, time.Minute))
				defer leave()
				ended := make(chan error, 1)
				go func() { // directly
					op := &number{repeatable: true}
					_, err := op.outcome(s.Do(ctx, op))
					ended <- err
				}()
				synctest.Wait()
				for range usualCalls { // by workers: one now, and one instead of the direct call
					go func() { s.doAll(within(t, time.Minute), numbers(MaxOperations)) }()
					synctest.Wait()
				}
				<-time.After(directTime + 1)
				synctest.Wait()
				require.Equal(t, usualCalls+1, s.count())
				end(s, leave)
				err := <-ended
				require.Error(t, err)
				require.False(t, abstractions.NotApplied(err))
				require.NotErrorIs(t, err, abstractions.ErrClosed)
				close(gate)
				synctest.Wait()
				require.Equal(t, usualCalls+1, s.count())
			})
		})
	}
}
