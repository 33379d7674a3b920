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

// stage is a fleet in virtual time: processes with a manager each, over one
// provider. Virtual time begins at midnight.
type stage struct {
	t        *testing.T
	provider *leasingtest.Provider
	over     abstractions.Provider // the decorated provider
	began    time.Time

	mu     sync.Mutex
	starts []start
	inside int
	most   int // the most jobs that ran at a time
}

// start is one start of the job.
type start struct {
	owner string
	tick  time.Time
	token int64
	at    time.Time
}

func onStage(t *testing.T, play func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		play(t, newStage(t))
	})
}

func newStage(t *testing.T) *stage {
	p := leasingtest.NewProvider()
	return &stage{t: t, provider: p, over: p, began: time.Now().UTC()}
}

func (s *stage) manager(owner string) *leasing.Manager {
	return leasingtest.NewManagerOn(s.t, s.over, leasing.Options{Owner: owner, TTL: ttl})
}

// process is a Run under way.
type process struct {
	s       *stage
	owner   string
	manager *leasing.Manager
	stop    context.CancelCauseFunc
	done    chan struct{}
	err     error // of Run, once done

	mu     sync.Mutex
	errors []error // passed to OnError, as "15:04:05: text"
	raw    []error
}

// run starts a process. Its job takes no time, or is the given job, which is called after the start
// was recorded.
func (s *stage) run(owner string, options Options, job Job) *process {
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

// told returns the calls of OnError so far.
func (p *process) told() []string {
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

// ended waits for Run to return, an hour of virtual time at most.
func (p *process) ended() error {
	p.s.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Hour):
		require.FailNow(p.s.t, "Run has not returned")
	}
	return p.err
}

func (s *stage) enter(owner string, tick Tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, start{owner: owner, tick: tick.At, token: tick.Token(), at: time.Now()})
	s.inside++
	s.most = max(s.most, s.inside)
}

func (s *stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

func (s *stage) started() []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.starts)
}

// ticks returns the ticks for which the job was started, as "15:04:05", in order
// of the starts.
func (s *stage) ticks() []string {
	texts := []string{}
	for _, start := range s.started() {
		texts = append(texts, start.tick.Format("15:04:05"))
	}
	return texts
}

// until sleeps until a time after the beginning of the stage.
func (s *stage) until(d time.Duration) {
	time.Sleep(time.Until(s.began.Add(d)))
	synctest.Wait()
}

func (s *stage) record(lease string) leasing.Record {
	s.t.Helper()
	record, err := s.provider.Inspect(context.Background(), abstractions.InspectRequest{Name: lease})
	require.NoError(s.t, err)
	return record
}

// crashed takes a lease for a process that has crashed: the lease is not renewed.
func (s *stage) crashed(lease string) {
	s.t.Helper()
	_, err := s.provider.Acquire(context.Background(), abstractions.AcquireRequest{Name: lease, ID: abstractions.NewID(), Owner: "crashed", TTL: ttl})
	require.NoError(s.t, err)
}

func (s *stage) markOf(tick time.Duration) string {
	return Options{Name: name}.markName(s.began.Add(tick))
}

// partition cuts a process off: none of its requests gets through.
func (s *stage) partition(owner func(call leasingtest.Call) bool) (heal func()) {
	return s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
		if owner(call) {
			return leasing.ErrUnavailable
		}
		return apply()
	})
}
