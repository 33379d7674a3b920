package chaos_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// backend is a memory provider that records the requests it receives.
type backend struct {
	*memlease.Provider
	start time.Time
	mu    sync.Mutex
	sent  map[chaos.Op][]time.Duration // since start
	last  any                          // the last request
}

func newBackend() *backend {
	return &backend{
		Provider: memlease.New(memlease.Options{History: 100, HistoryRenewals: true}),
		start:    time.Now(), sent: map[chaos.Op][]time.Duration{},
	}
}

func (b *backend) note(op chaos.Op, req any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[op] = append(b.sent[op], time.Since(b.start))
	b.last = req
}

// times returns the times, since start, at which requests of an op came in.
func (b *backend) times(op chaos.Op) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent[op]
}

func (b *backend) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		*ability = b
	case *abstractions.Waiter:
		*ability = b
	case *abstractions.WaiterLister:
		*ability = b
	case *abstractions.Lister:
		*ability = b
	case *abstractions.Pinger:
		*ability = b
	case *abstractions.HistoryReader:
		*ability = b
	default:
		return false
	}
	return true
}

func (b *backend) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	b.note(chaos.OpAcquire, req)
	return b.Provider.Acquire(ctx, req)
}

func (b *backend) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	b.note(chaos.OpRenew, req)
	return b.Provider.Renew(ctx, req)
}

func (b *backend) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	b.note(chaos.OpRenewBatch, reqs)
	for _, req := range reqs {
		b.note(chaos.OpRenew, req)
	}
	return b.Provider.RenewBatch(ctx, reqs)
}

func (b *backend) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	b.note(chaos.OpRelease, req)
	return b.Provider.Release(ctx, req)
}

func (b *backend) Break(ctx context.Context, req abstractions.BreakRequest) (leasing.BreakResult, error) {
	b.note(chaos.OpBreak, req)
	return b.Provider.Break(ctx, req)
}

func (b *backend) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	b.note(chaos.OpInspect, req)
	return b.Provider.Inspect(ctx, req)
}

func (b *backend) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	b.note(chaos.OpList, req)
	return b.Provider.List(ctx, req)
}

func (b *backend) Ping(ctx context.Context) error {
	b.note(chaos.OpPing, nil)
	return b.Provider.Ping(ctx)
}

func (b *backend) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	b.note(chaos.OpHistory, req)
	return b.Provider.History(ctx, req)
}

func (b *backend) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	b.note(chaos.OpWait, req)
	return b.Provider.Wait(ctx, req)
}

func (b *backend) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	b.note(chaos.OpWaiters, req)
	return b.Provider.Waiters(ctx, req)
}

// wrapped returns a new backend, and a wrapper around it with a plan of the rules. Both end with
// the test.
func wrapped(t testing.TB, rules ...chaos.Rule) (*chaos.Provider, *backend) {
	return wrappedWith(t, chaos.Options{}, rules...)
}

func wrappedWith(t testing.TB, options chaos.Options, rules ...chaos.Rule) (*chaos.Provider, *backend) {
	b := newBackend()
	p, err := chaos.Wrap(b, chaos.Plan{Seed: 1, Rules: rules}, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, b
}

// claim returns a request for a lease of one minute.
func claim(name, id string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "owner", TTL: time.Minute}
}

// renewal returns a request of the claim id to renew a name, with the name's current token.
func (b *backend) renewal(name, id string) abstractions.RenewRequest {
	record, _ := b.Provider.Inspect(context.Background(), abstractions.InspectRequest{Name: name})
	return abstractions.RenewRequest{Name: name, ID: id, Token: record.Token, TTL: time.Minute}
}

// verb is a call that sends an operation.
type verb struct {
	name string
	op   chaos.Op
	call func(ctx context.Context, p *chaos.Provider, b *backend) error
}

// verbs send every operation, for the name "n", which claim "id" holds.
var verbs = []verb{
	{"acquire", chaos.OpAcquire, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Acquire(ctx, claim("n", "id"))
		return err
	}},
	{"renew", chaos.OpRenew, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Renew(ctx, b.renewal("n", "id"))
		return err
	}},
	{"item of a batch", chaos.OpRenew, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{b.renewal("n", "id")})
		if err != nil {
			return err
		}
		return results[0].Err
	}},
	{"batch", chaos.OpRenewBatch, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.RenewBatch(ctx, []abstractions.RenewRequest{b.renewal("n", "id")})
		return err
	}},
	{"release", chaos.OpRelease, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		return p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "id"})
	}},
	{"break", chaos.OpBreak, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Break(ctx, abstractions.BreakRequest{Name: "n"})
		return err
	}},
	{"inspect", chaos.OpInspect, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		return err
	}},
	{"list", chaos.OpList, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.List(ctx, abstractions.ListRequest{})
		return err
	}},
	{"history", chaos.OpHistory, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
		return err
	}},
	{"waiters", chaos.OpWaiters, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Waiters(ctx, abstractions.WaitersRequest{Name: "n"})
		return err
	}},
	{"ping", chaos.OpPing, func(ctx context.Context, p *chaos.Provider, b *backend) error { return p.Ping(ctx) }},
	{"wait", chaos.OpWait, func(ctx context.Context, p *chaos.Provider, b *backend) error {
		_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "waiting"})
		return err
	}},
}

func asJSON(t *testing.T, r chaos.Report) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return text
}
