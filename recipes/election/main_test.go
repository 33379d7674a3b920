package election

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "billing/leader"

// ttl is the TTL of the candidates' leases.
const ttl = 10 * time.Second

// fixture is an election in virtual time: candidates with a manager each, over
// one provider.
type fixture struct {
	t        *testing.T
	provider *leasingtest.Provider
	watcher  *leasing.Manager

	mu      sync.Mutex
	log     []string
	leaders int
}

func withFixture(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{t: t, provider: leasingtest.NewProvider()}
		s.watcher = s.manager("watcher")
		test(t, s)
	})
}

func (s *fixture) manager(owner string) *leasing.Manager {
	return leasingtest.NewManagerOn(s.t, s.provider, leasing.Options{Owner: owner, TTL: ttl})
}

func (s *fixture) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *fixture) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// enter and leave detect two leaders at the same time.
func (s *fixture) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaders++
	assert.Equal(s.t, 1, s.leaders, "two leaders at a time")
}

func (s *fixture) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaders--
}

func (s *fixture) record() leasing.Record {
	s.t.Helper()
	record, err := s.watcher.Inspect(s.t.Context(), name)
	require.NoError(s.t, err)
	return record
}

// run is a candidate whose Run is in progress.
type run struct {
	*Candidate
	cancel context.CancelCauseFunc
	result chan error
}

// start runs a candidate whose work lasts until its context ends, unless
// options say otherwise.
func (s *fixture) start(owner string, options Options) *run {
	s.t.Helper()
	options.Name = name
	if options.OnElected == nil {
		options.OnElected = func(ctx context.Context, lease *leasing.Lease) error {
			s.enter()
			defer s.leave()
			s.note("%s elected", owner)
			<-ctx.Done()
			s.note("%s done", owner)
			return ctx.Err()
		}
	}
	candidate, err := New(s.manager(owner), options)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancelCause(s.t.Context())
	r := &run{Candidate: candidate, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- candidate.Run(ctx) }()
	synctest.Wait()
	s.t.Cleanup(func() { cancel(nil) })
	return r
}

// receive waits for a value, for at most an hour of virtual time.
func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(time.Hour):
		require.FailNow(t, "nothing came")
	}
	return value
}

// awaitElected waits until the candidate leads.
func (s *fixture) awaitElected(r *run) {
	s.t.Helper()
	for limit := time.Now().Add(time.Hour); !r.IsLeader(); time.Sleep(10 * time.Millisecond) {
		require.True(s.t, time.Now().Before(limit), "never elected")
	}
}
