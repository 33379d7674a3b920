package providertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// fake is a client of the reference provider. A flaw may replace any of its methods.
type fake struct {
	server *memlease.Provider
	ahead  *atomic.Int64 // the time by which the server's clock is ahead
	closed atomic.Bool
	open   context.Context // ends when the fake is closed
	leave  context.CancelFunc

	acquire      func(context.Context, abstractions.AcquireRequest) (abstractions.Grant, error)
	renew        func(context.Context, abstractions.RenewRequest) (abstractions.Grant, error)
	release      func(context.Context, abstractions.ReleaseRequest) error
	breakLease   func(context.Context, abstractions.BreakRequest) (abstractions.BreakResult, error)
	inspect      func(context.Context, abstractions.InspectRequest) (abstractions.Record, error)
	renewBatch   func(context.Context, []abstractions.RenewRequest) ([]abstractions.RenewResult, error)
	wait         func(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error)
	waiters      func(context.Context, abstractions.WaitersRequest) ([]abstractions.Waiting, error)
	list         func(context.Context, abstractions.ListRequest) (abstractions.ListResult, error)
	ping         func(context.Context) error
	history      func(context.Context, abstractions.HistoryRequest) (abstractions.HistoryResult, error)
	capabilities func() abstractions.Capabilities
	as           func(target any) bool
	close        func() error
	forget       func(name string)
	lose         func(name string)

	mu sync.Mutex // guards the variables of flaws
}

const retention = 24 * time.Hour

func newServer() *memlease.Provider { return newServerAhead(new(atomic.Int64)) }

func newServerAhead(by *atomic.Int64) *memlease.Provider {
	now := func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
	return memlease.New(memlease.Options{History: 100, Retention: retention, Now: now})
}

func newFake(server *memlease.Provider) *fake {
	f := &fake{server: server}
	f.open, f.leave = context.WithCancel(context.Background())
	f.acquire, f.renew, f.release, f.breakLease, f.inspect = server.Acquire, server.Renew, server.Release, server.Break, server.Inspect
	f.renewBatch, f.wait, f.waiters, f.list, f.ping, f.history = server.RenewBatch, server.Wait, server.Waiters, server.List, server.Ping, server.History
	f.capabilities = server.Capabilities
	f.as = f.answer
	f.close = func() error { f.closed.Store(true); f.leave(); return nil }
	f.forget = f.forgetAtServer
	f.lose = func(string) {}
	return f
}

// forgetAtServer lets the retention pass, in virtual time, and makes the sweep delete the record.
func (f *fake) forgetAtServer(name string) {
	ctx := context.Background()
	time.Sleep(retention)
	for i := 0; ; i++ {
		record, _ := f.server.Inspect(ctx, abstractions.InspectRequest{Name: name})
		if record.Token == 0 {
			return
		}
		f.server.Acquire(ctx, abstractions.AcquireRequest{Name: fmt.Sprint("sweep", i), ID: abstractions.NewID(), Owner: "x", TTL: time.Second})
	}
}

func (f *fake) answer(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		*ability = f
	case *abstractions.Waiter:
		*ability = f
	case *abstractions.WaiterLister:
		*ability = f
	case *abstractions.Lister:
		*ability = f
	case *abstractions.Pinger:
		*ability = f
	case *abstractions.HistoryReader:
		*ability = f
	default:
		return false
	}
	return true
}

func (f *fake) isClosed() error {
	if f.closed.Load() {
		return abstractions.ErrClosed
	}
	return nil
}

func (f *fake) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.Grant{}, err
	}
	return f.acquire(ctx, req)
}

func (f *fake) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.Grant{}, err
	}
	return f.renew(ctx, req)
}

func (f *fake) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if err := f.isClosed(); err != nil {
		return err
	}
	return f.release(ctx, req)
}

func (f *fake) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.BreakResult{}, err
	}
	return f.breakLease(ctx, req)
}

func (f *fake) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.Record{}, err
	}
	return f.inspect(ctx, req)
}

func (f *fake) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if err := f.isClosed(); err != nil {
		return nil, err
	}
	return f.renewBatch(ctx, reqs)
}

func (f *fake) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.Wakeups{}, err
	}
	waits, leave := context.WithCancel(ctx)
	context.AfterFunc(f.open, leave)
	return f.wait(waits, req)
}

func (f *fake) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	if err := f.isClosed(); err != nil {
		return nil, err
	}
	return f.waiters(ctx, req)
}

func (f *fake) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.ListResult{}, err
	}
	return f.list(ctx, req)
}

func (f *fake) Ping(ctx context.Context) error {
	if err := f.isClosed(); err != nil {
		return err
	}
	return f.ping(ctx)
}

func (f *fake) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	if err := f.isClosed(); err != nil {
		return abstractions.HistoryResult{}, err
	}
	return f.history(ctx, req)
}

func (f *fake) Capabilities() abstractions.Capabilities { return f.capabilities() }
func (f *fake) As(target any) bool                      { return f.as(target) }
func (f *fake) Close() error                            { return f.close() }

// goAhead uses a name while the server's clock is ahead.
func (f *fake) goAhead(ctx context.Context, name string) {
	f.ahead.Add(int64(time.Hour))
	defer f.ahead.Add(-int64(time.Hour))
	id := abstractions.NewID()
	_, _ = f.server.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "test", TTL: time.Second})
	_ = f.server.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
}

// harness makes clients that all have the flaw. Each check gets a server of its own.
func harness(flaw func(f *fake)) Harness {
	client := func(server *memlease.Provider, ahead *atomic.Int64) abstractions.Provider {
		f := newFake(server)
		f.ahead = ahead
		flaw(f)
		return f
	}
	return Harness{
		New: func(testing.TB) abstractions.Provider {
			ahead := new(atomic.Int64)
			return client(newServerAhead(ahead), ahead)
		},
		Peer: func(_ testing.TB, p abstractions.Provider) abstractions.Provider {
			return client(p.(*fake).server, p.(*fake).ahead)
		},
		Forget: func(_ testing.TB, p abstractions.Provider, name string) { p.(*fake).forget(name) },
		Lose:   func(_ testing.TB, p abstractions.Provider, name string) { p.(*fake).lose(name) },
		Remove: func(t testing.TB, p abstractions.Provider, name string) {
			_, _ = p.(*fake).server.Break(t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
		},
		Ahead:       func(t testing.TB, p abstractions.Provider, name string) { p.(*fake).goAhead(t.Context(), name) },
		Unreachable: func(testing.TB) abstractions.Provider { return unreachable(flaw) },
		Remembers:   64,
		Virtual:     true, KnowsTheGone: true,
	}.withDefaults()
}

// unreachable returns a client whose server accepts requests and stays silent.
func unreachable(flaw func(f *fake)) abstractions.Provider {
	f := newFake(newServer())
	silence := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, ctx.Err())
	}
	f.acquire = func(ctx context.Context, _ abstractions.AcquireRequest) (abstractions.Grant, error) {
		return abstractions.Grant{}, silence(ctx)
	}
	f.renew = func(ctx context.Context, _ abstractions.RenewRequest) (abstractions.Grant, error) {
		return abstractions.Grant{}, silence(ctx)
	}
	f.release = func(ctx context.Context, _ abstractions.ReleaseRequest) error { return silence(ctx) }
	f.breakLease = func(ctx context.Context, _ abstractions.BreakRequest) (abstractions.BreakResult, error) {
		return abstractions.BreakResult{}, silence(ctx)
	}
	f.inspect = func(ctx context.Context, _ abstractions.InspectRequest) (abstractions.Record, error) {
		return abstractions.Record{}, silence(ctx)
	}
	f.renewBatch = func(ctx context.Context, _ []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
		return nil, silence(ctx)
	}
	f.waiters = func(ctx context.Context, _ abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
		return nil, silence(ctx)
	}
	f.list = func(ctx context.Context, _ abstractions.ListRequest) (abstractions.ListResult, error) {
		return abstractions.ListResult{}, silence(ctx)
	}
	f.ping = silence
	f.history = func(ctx context.Context, _ abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
		return abstractions.HistoryResult{}, silence(ctx)
	}
	flaw(f)
	return f
}

// recorder is a test whose failure is only recorded.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    string
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log += text + "\n"
}

func (r *recorder) Fail()                             { r.note(true, "failed") }
func (r *recorder) Failed() bool                      { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) Error(args ...any)                 { r.note(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Log(args ...any)                   { r.note(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.note(false, fmt.Sprintf(format, args...)) }

// outcome runs one check in a subtest that passes whatever the check finds.
func outcome(t *testing.T, h Harness, c suite.Check) (failed bool, log string) {
	r := &recorder{}
	t.Run(c.Name, func(t *testing.T) {
		if !h.Virtual {
			r.TB = t
			h.backend().Run(r, c, func() {})
			return
		}
		synctest.Test(t, func(t *testing.T) {
			r.TB = t
			h.backend().Run(r, c, func() {})
		})
	})
	return r.failed, r.log
}
