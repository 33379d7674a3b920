package assign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

const ttl = 12 * time.Second

var errDisconnected = fmt.Errorf("%w: disconnected", leasing.ErrUnavailable)

// connection connects a process to the backend. While the connection is cut, the process looks dead
// to others.
type connection struct {
	*leasingtest.Provider
	cut    atomic.Bool
	hidden atomic.Pointer[string] // a name that listings leave out
}

func (p *connection) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if p.cut.Load() {
		return abstractions.Grant{}, errDisconnected
	}
	return p.Provider.Acquire(ctx, req)
}

func (p *connection) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if p.cut.Load() {
		return abstractions.Grant{}, errDisconnected
	}
	return p.Provider.Renew(ctx, req)
}

func (p *connection) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if p.cut.Load() {
		return errDisconnected
	}
	return p.Provider.Release(ctx, req)
}

func (p *connection) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	if p.cut.Load() {
		return abstractions.ListResult{}, errDisconnected
	}
	page, err := p.Provider.List(ctx, req)
	if hidden := p.hidden.Load(); hidden != nil {
		page.Records = slices.DeleteFunc(page.Records, func(r abstractions.Record) bool { return r.Name == *hidden })
	}
	return page, err
}

func (p *connection) As(target any) bool {
	switch target := target.(type) {
	case *abstractions.Lister:
		*target = p
	case *abstractions.Waiter:
		*target = p.Provider
	default:
		return false
	}
	return true
}

// fleet is a set of workers in virtual time, each with its own manager, over one backend.
type fleet struct {
	t          *testing.T
	backend    *leasingtest.Provider
	partitions []string
	lag        time.Duration // the time that work takes to end
	preferred  func(string) string

	mu      sync.Mutex
	workers map[string]*member
	working map[string]string // the worker of each partition
	begun   int               // the number of Work calls that began
	moved   int               // the number of Work calls that ended with ErrMoved
	idle    time.Duration     // the longest time for which a released partition had no worker
	free    map[string]time.Time
}

type member struct {
	*Worker
	connection *connection
	cancel     context.CancelFunc
	done       chan error
}

func withFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &fleet{t: t, backend: leasingtest.NewProvider(), partitions: names("p", 64), workers: map[string]*member{}, working: map[string]string{}, free: map[string]time.Time{}})
	})
}

func (f *fleet) work(id string) func(context.Context, string, *leasing.Lease) error {
	return func(ctx context.Context, p string, _ *leasing.Lease) error {
		f.mu.Lock()
		if other := f.working[p]; other != "" {
			f.t.Errorf("%s works on %s, beside %s", id, p, other)
		}
		f.working[p] = id
		f.begun++
		if since, is := f.free[p]; is {
			f.idle = max(f.idle, time.Since(since))
		}
		f.mu.Unlock()
		<-ctx.Done()
		if lost := errors.Is(context.Cause(ctx), leasing.ErrLost); !lost {
			time.Sleep(f.lag)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.working, p)
		f.free[p] = time.Now()
		if errors.Is(context.Cause(ctx), ErrMoved) {
			f.moved++
		}
		return ctx.Err()
	}
}

func (f *fleet) join(id string) *member {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	m := &member{connection: &connection{Provider: f.backend}, cancel: cancel, done: make(chan error, 1)}
	manager := leasingtest.NewManagerOn(f.t, m.connection, leasing.Options{TTL: ttl})
	var err error
	m.Worker, err = New(manager, Options{Name: "orders", Partitions: f.partitions, Work: f.work(id), Worker: id, Preferred: f.preferred})
	require.NoError(f.t, err)
	f.workers[id] = m
	go func() { m.done <- m.Run(ctx) }()
	f.t.Cleanup(func() { cancel(); m.connection.cut.Store(false); <-m.done })
	return m
}

// kill removes a worker without a release, as after a crash. Its work ends before its leases expire.
func (f *fleet) kill(id string) {
	f.workers[id].connection.cut.Store(true)
	delete(f.workers, id)
}

// counts returns the number of partitions of each live worker.
func (f *fleet) counts() map[string]int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for id := range f.workers {
		counts[id] = 0
	}
	for _, id := range f.working {
		counts[id]++
	}
	return counts
}

func (f *fleet) isEven() bool {
	counts, sum := slices.Sorted(maps.Values(f.counts())), 0
	for _, n := range counts {
		sum += n
	}
	return len(counts) == len(f.workers) && sum == len(f.partitions) && counts[len(counts)-1]-counts[0] <= 1
}

// awaitEven waits until the shares are even, and returns the number of Work calls that began and the number of
// partitions that moved in that time.
func (f *fleet) awaitEven(limit time.Duration) (begun, moved int) {
	f.t.Helper()
	begun, moved = f.counters()
	for end := time.Now().Add(limit); !f.isEven(); time.Sleep(50 * time.Millisecond) {
		require.True(f.t, time.Now().Before(end), "not even: %v", f.counts())
	}
	after, gone := f.counters()
	return after - begun, gone - moved
}

func (f *fleet) counters() (begun, moved int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun, f.moved
}
