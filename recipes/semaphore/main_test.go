package semaphore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name = "external/payments"
	ttl  = 10 * time.Second
)

var errStop = errors.New("shutting down")

// fixture is a fleet in virtual time: processes with a manager each, over one
// provider.
type fixture struct {
	t        *testing.T
	provider *leasingtest.Provider
}

func withFixture(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &fixture{t: t, provider: leasingtest.NewProvider()})
	})
}

// process returns the semaphore of a new process.
func (s *fixture) process(owner string, options Options) *Semaphore {
	s.t.Helper()
	if options.Name == "" {
		options.Name = name
	}
	semaphore, err := New(leasingtest.NewManagerOn(s.t, s.provider, leasing.Options{Owner: owner, TTL: ttl}), options)
	require.NoError(s.t, err)
	return semaphore
}

// take acquires a free permit.
func (s *fixture) take(from *Semaphore) *Permit {
	s.t.Helper()
	permit, err := from.TryAcquire(s.t.Context())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = permit.Release(context.Background()) })
	return permit
}

func (s *fixture) takeAll(from *Semaphore, n int) (permits []*Permit) {
	s.t.Helper()
	for range n {
		permits = append(permits, s.take(from))
	}
	return permits
}

// wait is a call of Acquire that is in progress.
type wait struct {
	permit *Permit
	err    error
	at     time.Time // when it ended
	done   chan struct{}
}

// acquireAsync calls Acquire in the background.
func (s *fixture) acquireAsync(ctx context.Context, from *Semaphore) *wait {
	w := &wait{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.permit, w.err = from.Acquire(ctx)
		w.at = time.Now()
	}()
	s.t.Cleanup(func() {
		<-w.done
		if w.permit != nil {
			_ = w.permit.Release(context.Background())
		}
	})
	synctest.Wait()
	return w
}

func (w *wait) isOver() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// receive waits for the permit, for at most an hour of virtual time.
func (s *fixture) receive(w *wait) *Permit {
	s.t.Helper()
	select {
	case <-w.done:
	case <-time.After(time.Hour):
		require.FailNow(s.t, "nothing came")
	}
	require.NoError(s.t, w.err)
	return w.permit
}

func release(t *testing.T, permits ...*Permit) {
	t.Helper()
	for _, permit := range permits {
		require.NoError(t, permit.Release(t.Context()))
	}
}

// held returns the number of slots that are held at the backend.
func (s *fixture) held() (n int) {
	s.t.Helper()
	page, err := s.provider.List(context.Background(), abstractions.ListRequest{Prefix: name + "/slot/", HeldOnly: true, Limit: 1000})
	require.NoError(s.t, err)
	return len(page.Records)
}

// asked counts the requests that acquire or wait for slots.
func (s *fixture) asked() int {
	return s.provider.Count(leasingtest.Acquire) + s.provider.Count(leasingtest.Wait)
}

// idle checks that a semaphore is idle and has all its slots.
func idle(t testing.TB, s *Semaphore) {
	t.Helper()
	time.Sleep(yieldFor)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.queue)
	require.Nil(t, s.search)
	require.Len(t, s.free, s.options.Permits)
	require.Zero(t, s.held)
}

// withoutPush is the provider without the ability to push wake-ups.
type withoutPush struct{ leasing.Provider }

func (withoutPush) As(any) bool { return false }
