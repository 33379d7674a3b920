package batch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallsThatHangHoldNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		var hung sync.WaitGroup
		for n := range usualCalls {
			hung.Go(func() { _, _ = s.do(within(t, time.Minute), n) })
			synctest.Wait()
		}
		began := time.Now()
		got, err := s.do(within(t, time.Minute), 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Equal(t, maxQueueDelay, time.Since(began))

		// No request waits for the hanging calls any longer.
		began = time.Now()
		for n := range 10 {
			_, err = s.do(within(t, time.Minute), n)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		close(gate)
		hung.Wait()
		synctest.Wait()
		s.requireIdle()
	})
}

// After hanging calls have ended, there are no more calls than usual.
func TestCallsAreFewAgainAfterAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		const hanging = 10
		gate := s.hang(hanging)
		var all sync.WaitGroup
		for n := range hanging {
			all.Go(func() { _, _ = s.do(within(t, time.Minute), n) })
			<-time.After(maxQueueDelay + 1)
		}
		require.Equal(t, hanging, s.count())
		close(gate)
		all.Wait()
		synctest.Wait()
		s.requireIdle()
		s.calls = nil
		gate = s.hang(hanging)
		for n := range hanging {
			all.Go(func() { _, _ = s.do(within(t, time.Minute), n) })
			synctest.Wait()
		}
		require.Equal(t, usualCalls, s.count())
		close(gate)
		all.Wait()
	})
}

func TestCallsThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(10 * MaxCalls)
		var all sync.WaitGroup
		for n := range 2 * MaxCalls {
			all.Go(func() { _, _ = s.do(within(t, time.Hour), n) })
			<-time.After(maxQueueDelay)
		}
		synctest.Wait()
		require.Equal(t, MaxCalls, s.count())
		close(gate)
		all.Wait()
		require.Len(t, s.sent(), 2*MaxCalls, "those that had waited were sent")
		synctest.Wait()
		s.requireIdle()
	})
}

// A worker whose call hung and then ended leaves the queue to others, if there are enough other
// workers.
func TestCallsThatHungDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gates := make([]chan struct{}, 100)
		for i := range gates {
			gates[i] = make(chan struct{})
		}
		s.answer = s.through(gates)
		var all sync.WaitGroup
		begin := func(n int) {
			all.Go(func() {
				_, err := s.do(within(t, time.Hour), n)
				assert.NoError(t, err)
			})
		}
		for n := range usualCalls + 1 { // the last is sent beside the calls that hang
			begin(n)
			synctest.Wait()
		}
		<-time.After(maxQueueDelay)
		synctest.Wait()
		require.Equal(t, usualCalls+1, s.count())
		begin(10) // another call may begin, since the others hang
		synctest.Wait()
		require.Equal(t, usualCalls+2, s.count())
		begin(11)
		synctest.Wait()
		require.Equal(t, usualCalls+2, s.count())
		for call := range usualCalls {
			close(gates[call])
		}
		synctest.Wait()
		require.Equal(t, usualCalls+2, s.count(), "two calls are under way that do not hang")
		for _, gate := range gates[usualCalls:] {
			close(gate)
		}
		all.Wait()
		synctest.Wait()
		s.requireIdle()
	})
}

func TestCloseRefusesWhatWaitsAndAwaitsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		gate := s.hang(usualCalls)
		running := make(chan error, usualCalls)
		for n := range usualCalls {
			go func() { _, err := s.do(within(t, time.Minute), n); running <- err }()
			synctest.Wait()
		}
		waiting := make(chan error, 1)
		go func() { _, err := s.do(within(t, time.Minute), 9); waiting <- err }()
		ops := numbers(300)
		batch := make(chan []error, 1)
		go func() { batch <- s.doAll(within(t, time.Minute), ops) }()
		synctest.Wait()

		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		require.ErrorIs(t, <-waiting, abstractions.ErrClosed)
		for i, err := range <-batch {
			_, err = ops[i].outcome(err)
			require.ErrorIs(t, err, abstractions.ErrClosed)
		}
		for _, repeatable := range []bool{false, true} {
			require.ErrorIs(t, s.Do(within(t, time.Minute), &number{repeatable: repeatable}), abstractions.ErrClosed)
		}
		for _, err := range s.doAll(within(t, time.Minute), numbers(300)) {
			require.ErrorIs(t, err, abstractions.ErrClosed)
		}
		select {
		case <-closed:
			t.Fatal("calls are under way")
		default:
		}
		close(gate)
		for range usualCalls {
			require.NoError(t, <-running)
		}
		<-closed
		require.Len(t, s.sent(), usualCalls)
		s.Close() // again
	})
}

func TestCloseWhileCallersComeAndGo(t *testing.T) {
	for round := range 100 {
		s := newServer(t)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for {
					op := &number{n: n, repeatable: (n+round)%2 == 0}
					got, err := op.outcome(s.Do(within(t, time.Minute), op))
					if err != nil {
						assert.ErrorIs(t, err, abstractions.ErrClosed)
						return
					}
					assert.Equal(t, n, got)
				}
			})
		}
		s.Close()
		all.Wait()
		s.requireIdle()
	}
}
