package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	name = "jobs/daily-maintenance"
	ttl  = 10 * time.Second
)

var (
	errStop = errors.New("shutting down")
	errBoom = errors.New("boom")
)

// fixture is a fleet in virtual time: processes with a manager each, over one
// provider. Virtual time begins at midnight.
type fixture struct {
	t         *testing.T
	provider  *leasingtest.Provider
	decorated abstractions.Provider // the provider that the managers use
	began     time.Time

	mu        sync.Mutex
	starts    []start
	inside    int
	maxInside int // the most jobs that ran at the same time
}

// start describes one start of the job.
type start struct {
	owner string
	tick  time.Time
	token int64
	at    time.Time
}

func withFixture(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newFixture(t))
	})
}

func newFixture(t *testing.T) *fixture {
	p := leasingtest.NewProvider()
	return &fixture{t: t, provider: p, decorated: p, began: time.Now().UTC()}
}

func (s *fixture) manager(owner string) *leasing.Manager {
	return leasingtest.NewManagerOn(s.t, s.decorated, leasing.Options{Owner: owner, TTL: ttl})
}

// process is one call of Run.
type process struct {
	s       *fixture
	owner   string
	manager *leasing.Manager
	stop    context.CancelCauseFunc
	done    chan struct{}
	err     error // of Run, once done

	mu     sync.Mutex
	errors []error // passed to OnError, as "15:04:05: text"
	raw    []error
}

// run starts a process. The process records each start of the job, and then calls job unless job is
// nil.
func (s *fixture) run(owner string, options Options, job Job) *process {
	s.t.Helper()
	p := &process{s: s, owner: owner, manager: s.manager(owner), done: make(chan struct{})}
	options.Name = name
	if options.Every == 0 && options.Next == nil {
		options.Every = time.Hour
	}
	if options.OnError == nil {
		options.OnError = p.onError
	}
	ctx, stop := context.WithCancelCause(s.t.Context())
	p.stop = stop
	go func() {
		defer close(p.done)
		p.err = Run(ctx, p.manager, options, func(ctx context.Context, tick Tick) error {
			s.enter(owner, tick)
			defer s.leave()
			if job == nil {
				return nil
			}
			return job(ctx, tick)
		})
	}()
	s.t.Cleanup(func() { stop(nil); <-p.done })
	synctest.Wait()
	return p
}

func (p *process) onError(tick time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, fmt.Errorf("%s: %w", tick.Format("15:04:05"), err))
	p.raw = append(p.raw, err)
}

// errorTexts returns the texts of the errors passed to OnError so far.
func (p *process) errorTexts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	texts := []string{}
	for _, err := range p.errors {
		texts = append(texts, err.Error())
	}
	return texts
}

func (p *process) lastError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.raw) == 0 {
		return nil
	}
	return p.raw[len(p.raw)-1]
}

// awaitEnd waits for Run to return, for at most an hour of virtual time.
func (p *process) awaitEnd() error {
	p.s.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Hour):
		require.FailNow(p.s.t, "Run has not returned")
	}
	return p.err
}

func (s *fixture) enter(owner string, tick Tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, start{owner: owner, tick: tick.At, token: tick.Token(), at: time.Now()})
	s.inside++
	s.maxInside = max(s.maxInside, s.inside)
}

func (s *fixture) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

func (s *fixture) started() []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.starts)
}

// ticks returns the ticks for which the job was started, as "15:04:05", in order
// of the starts.
func (s *fixture) ticks() []string {
	texts := []string{}
	for _, start := range s.started() {
		texts = append(texts, start.tick.Format("15:04:05"))
	}
	return texts
}

// sleepUntil sleeps until d after the beginning of the test.
func (s *fixture) sleepUntil(d time.Duration) {
	time.Sleep(time.Until(s.began.Add(d)))
	synctest.Wait()
}

func (s *fixture) record(lease string) leasing.Record {
	s.t.Helper()
	record, err := s.provider.Inspect(context.Background(), abstractions.InspectRequest{Name: lease})
	require.NoError(s.t, err)
	return record
}

// acquireForCrashed acquires a lease for a process that has crashed: the lease is not renewed.
func (s *fixture) acquireForCrashed(lease string) {
	s.t.Helper()
	_, err := s.provider.Acquire(context.Background(), abstractions.AcquireRequest{Name: lease, ID: abstractions.NewID(), Owner: "crashed", TTL: ttl})
	require.NoError(s.t, err)
}

func (s *fixture) markOf(tick time.Duration) string {
	return Options{Name: name}.markName(s.began.Add(tick))
}

// partition fails the requests for which owner returns true, as if a process were cut off.
func (s *fixture) partition(owner func(call leasingtest.Call) bool) (heal func()) {
	return s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
		if owner(call) {
			return leasing.ErrUnavailable
		}
		return apply()
	})
}
