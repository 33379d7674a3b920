package redislease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestConnectionsThatHangHoldNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		d := puppetNode(t, p)
		var hung sync.WaitGroup
		for n := range maxFlights {
			hung.Go(func() { _, _ = operate(within(t, time.Minute), d, n) })
			synctest.Wait()
		}
		began := time.Now()
		got, err := operate(within(t, time.Minute), d, 7)
		require.NoError(t, err)
		require.EqualValues(t, 7, got)
		require.Equal(t, stuck, time.Since(began))

		// Now there are workers beside those that hang.
		began = time.Now()
		for n := range 10 {
			_, err = operate(within(t, time.Minute), d, n)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		h.letGo()
		hung.Wait()
		settled(t, d)
	})
}

// settled checks that no more workers stay than are needed.
func settled(t *testing.T, d *node) {
	t.Helper()
	synctest.Wait()
	for _, l := range d.lanes.byMaster {
		l.mu.Lock()
		require.LessOrEqual(t, l.workers, maxFlights)
		require.Equal(t, l.workers, l.idle)
		require.Empty(t, l.pending)
		require.Zero(t, l.flights)
		require.Zero(t, l.late)
		l.mu.Unlock()
	}
}

func TestCallsThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(10 * maxStuck)
		d := puppetNode(t, p)
		var all sync.WaitGroup
		for n := range 2 * maxStuck {
			all.Go(func() { _, _ = operate(within(t, time.Hour), d, n) })
			<-time.After(stuck)
		}
		synctest.Wait()
		require.Len(t, p.calls, maxStuck)
		h.letGo()
		all.Wait()
		require.Len(t, p.sent(), 2*maxStuck, "what had waited was sent")
		settled(t, d)
	})
}

func TestWhatWasNotSentIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		d := puppetNode(t, p)
		var hung sync.WaitGroup
		for n := range maxFlights {
			hung.Go(func() { _, _ = operate(within(t, time.Minute), d, n) })
			synctest.Wait()
		}
		given := func(d time.Duration) context.Context {
			ctx, cancel := context.WithCancel(within(t, time.Hour))
			time.AfterFunc(d, cancel)
			return ctx
		}
		_, err := operate(given(stuck/2), d, 8)
		require.ErrorIs(t, err, context.Canceled)
		replies := d.lanes.doAll(given(stuck/4), numberedUpTo(300))
		for _, r := range replies {
			requireUncertain(t, r.err)
		}
		h.letGo()
		hung.Wait()
		<-time.After(time.Minute)
		require.Len(t, p.sent(), maxFlights)
		settled(t, d)
	})
}

func TestOfABatchThereIsWhatCameInTime(t *testing.T) {
	for range 20 { // a select that finds two things ready takes either
		synctest.Test(t, func(t *testing.T) {
			_, p := hang(1)
			d := puppetNode(t, p)
			ctx := within(t, time.Second)
			replies := d.lanes.doAll(ctx, numberedUpTo(4*maxOperations))
			answered := 0
			for n, r := range replies {
				if value, _, err := r.number(); err == nil {
					answered++
					require.EqualValues(t, n, value)
				} else {
					requireUncertain(t, err)
				}
			}
			require.Equal(t, 3*maxOperations, answered)
		})
	}
}

type traced struct{}

func TestCallEndsWithTheLastOfItsSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		inner := p.answer
		var last context.Context
		p.answer = func(ctx context.Context, call int, replies []any) ([]any, error) {
			last = ctx //nolint:fatcontext // to look at it, not to go on with
			return inner(ctx, call, replies)
		}
		d := puppetNode(t, p)
		ctx, cancel := context.WithCancel(context.WithValue(within(t, time.Minute), traced{}, "span"))
		go func() { _, _ = operate(ctx, d, 1) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.NoError(t, last.Err(), "its sender has left, the call goes on")
		require.Equal(t, "span", last.Value(traced{}), "alone, a call is its sender's to trace")
		go func() { _, _ = operate(within(t, time.Minute), d, 2) }()
		synctest.Wait()

		began := time.Now()
		var all sync.WaitGroup
		for n := range 5 {
			all.Go(func() {
				_, err := operate(context.WithValue(within(t, time.Duration(n+1)*time.Minute), traced{}, n), d, n)
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		h.letGo()
		all.Wait()
		until, ok := last.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Minute, until.Sub(began))
		require.Nil(t, last.Value(traced{}), "together, they are nobody's")
		require.Nil(t, last.Done())
	})
}

func TestCloseRefusesWhatWaitsAndAwaitsWhatRuns(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	synctest.Test(t, func(t *testing.T) {
		h, p := hang(maxFlights)
		d := puppetNode(t, p)
		running := make(chan error, maxFlights)
		for n := range maxFlights {
			go func() { _, err := operate(within(t, time.Minute), d, n); running <- err }()
			synctest.Wait()
		}
		waiting := make(chan error, 1)
		go func() { _, err := operate(within(t, time.Minute), d, 9); waiting <- err }()
		batch := make(chan []reply, 1)
		go func() { batch <- d.lanes.doAll(within(t, time.Minute), numberedUpTo(300)) }()
		synctest.Wait()

		closed := make(chan struct{})
		go func() { d.close(); close(closed) }()
		synctest.Wait()
		require.ErrorIs(t, <-waiting, abstractions.ErrClosed)
		for _, r := range <-batch {
			require.ErrorIs(t, r.err, abstractions.ErrClosed)
		}
		_, err := operate(within(t, time.Minute), d, 10)
		require.ErrorIs(t, err, abstractions.ErrClosed)
		for _, r := range d.lanes.doAll(within(t, time.Minute), numberedUpTo(300)) {
			require.ErrorIs(t, r.err, abstractions.ErrClosed)
		}
		select {
		case <-closed:
			t.Fatal("calls are under way")
		default:
		}
		h.letGo()
		for range maxFlights {
			require.NoError(t, <-running)
		}
		<-closed
		require.Len(t, p.sent(), maxFlights)
		d.close() // again
	})
}

func TestCloseWhileCallersComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for range 50 {
		p := &puppet{}
		d := puppetNode(t, p)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for {
					got, err := operate(within(t, time.Minute), d, n)
					if err != nil {
						assert.ErrorIs(t, err, abstractions.ErrClosed)
						return
					}
					assert.EqualValues(t, n, got)
				}
			})
		}
		d.close()
		all.Wait()
	}
}
