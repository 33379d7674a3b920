package dispatch

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newJobs(limit int) *Jobs {
	return NewJobs(limit, func(f func()) bool { go f(); return true }, func() bool { return false })
}

// A job beyond the limit waits for a worker. Once overdue, it runs without a free worker.
func TestJobsRunBeyondTheLimitOnceTheyAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, began := newJobs(2), time.Now()
		starts, hang := make(chan time.Duration, 3), make(chan struct{})
		for range 3 {
			q.Add(time.Second, func(time.Duration) {
				starts <- time.Since(began)
				<-hang
			})
		}
		require.Zero(t, <-starts)
		require.Zero(t, <-starts)
		require.Equal(t, time.Second, <-starts)
		close(hang)
	})
}

// While jobs are overdue and have no worker, each request gets only a part of its time.
func TestARequestGetsAPartOfItsTimeWhileOthersAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newJobs(1)
		var running, maxWorkers atomic.Int64
		divisors := make(chan time.Duration, 2)
		hang := make(chan struct{})
		for range q.maxWorkers {
			q.Add(0, func(time.Duration) {
				maxWorkers.Store(max(maxWorkers.Load(), running.Add(1)))
				<-hang
				running.Add(-1)
			})
			synctest.Wait()
		}
		for range 2 {
			q.Add(time.Second, func(divisor time.Duration) { divisors <- divisor })
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, q.maxWorkers, maxWorkers.Load())
		require.Empty(t, divisors, "all workers hang")
		close(hang)
		require.EqualValues(t, overdueDivisor, <-divisors)
		require.EqualValues(t, 1, <-divisors, "the last job keeps no other waiting")
	})
}

// No job begins after the function ended has returned true.
func TestJobsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		q := NewJobs(1, func(f func()) bool { go f(); return true }, ended.Load)
		hang, ran := make(chan struct{}), atomic.Bool{}
		q.Add(time.Hour, func(time.Duration) { <-hang })
		q.Add(time.Hour, func(time.Duration) { ran.Store(true) })
		ended.Store(true)
		close(hang)
		synctest.Wait()
		require.False(t, ran.Load())
	})
}

// Items share a request if their bounds are similar. After a failure, fewer items share a request.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan []int, 10)
		q := newJobs(1)
		b := NewBatches(q, q, 32, func(batch []int, _ time.Duration) { sent <- slices.Clone(batch) })
		dispatch := func() (batches [][]int) {
			b.Dispatch()
			synctest.Wait()
			for len(sent) > 0 {
				batches = append(batches, <-sent)
			}
			slices.SortFunc(batches, slices.Compare)
			return batches
		}
		b.Gather(1, 1000, 0)
		b.Gather(2, 1023, 0)
		b.Gather(3, 1024, 0)
		require.Equal(t, [][]int{{1, 2}, {3}}, dispatch(), "a batch is bounded by its most urgent item")
		require.Empty(t, dispatch())
		for i := range 40 {
			b.Gather(i, time.Second, 0)
		}
		require.Len(t, dispatch(), 2)
		for i := range 4 {
			b.Gather(i, time.Second, 1)
		}
		require.Equal(t, [][]int{{0, 1}, {2, 3}}, dispatch())
		for i := range 4 {
			b.Gather(i, time.Second, 2+i)
		}
		require.Equal(t, [][]int{{0}, {1}, {2}, {3}}, dispatch())
	})
}
