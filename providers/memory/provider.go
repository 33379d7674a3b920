package memlease

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
)

const (
	shards = 64 // a power of two
	// minTTL leaves some time for package leasing's default margins.
	minTTL = 10 * time.Millisecond
)

var capabilities = abstractions.Capabilities{
	Provider:       "memory",
	MinTTL:         minTTL,
	Infinite:       true,
	Clock:          "the process's monotonic clock",
	RemainingKnown: true,
	HeedsContext:   true,
}

type shell = providerkit.Provider // so that the embedded field is not exported

// Provider keeps leases in memory. Make one with New or OpenURL and
// share it between the managers that must exclude each other. It is safe for
// concurrent use. After Close every method returns abstractions.ErrClosed, for
// all managers that share the provider.
type Provider struct {
	*shell
	memory *memory
}

// New makes a provider. It fails only if the options are invalid, and then panics
// with the text of the error that OpenURL would return. Read options that come from
// outside the program with OpenURL.
func New(options Options) *Provider {
	options, err := options.complete()
	if err != nil {
		panic("memlease: " + err.Error())
	}
	return newProvider(options)
}

func newProvider(options Options) *Provider {
	start := options.Now()
	m := &memory{options: options, start: start, base: start.Round(0), seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].records = make(map[string]*record)
		m.shards[i].waiters = make(map[string][]*waiter)
	}
	var d providerkit.Driver = m
	if options.History > 0 {
		d = historian{m}
	}
	return &Provider{providerkit.New(d, providerkit.Config{}), m}
}

// memory is the provider's driver.
type memory struct {
	options Options
	// start is the time at which the provider was made. Instants are counted from start,
	// so that comparisons use the clock's monotonic reading, if the clock has such a reading.
	start   time.Time
	base    time.Time // start without the monotonic reading
	seed    maphash.Seed
	wakeups wakeup.Listener
	shards  [shards]shard
}

var (
	_ abstractions.BatchRenewer  = (*memory)(nil)
	_ abstractions.Waiter        = (*memory)(nil)
	_ abstractions.WaiterLister  = (*memory)(nil)
	_ abstractions.Lister        = (*memory)(nil)
	_ abstractions.Pinger        = (*memory)(nil)
	_ abstractions.HistoryReader = historian{}
)

func (m *memory) Capabilities() abstractions.Capabilities { return capabilities }

// Classify has no errors to classify: there is no client library.
func (m *memory) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }

func (m *memory) Ping(context.Context) error { return nil }

func (m *memory) Close() error {
	m.wakeups.Close()
	return nil
}

func (m *memory) shardOf(name string) *shard {
	return &m.shards[maphash.String(m.seed, name)%shards]
}

func (m *memory) Acquire(_ context.Context, req abstractions.AcquireRequest) (grant abstractions.Grant, err error) {
	err = m.change(req.Name, true, func(r *providerkit.Record) (c providerkit.Change) {
		if c = r.Acquire(req); c.Err == nil {
			grant = r.Grant(req.TTL)
		}
		return c
	})
	return grant, err
}

// Renew extends a claim. A claim that has expired is lost, even if no other claim has had the
// name since.
func (m *memory) Renew(_ context.Context, req abstractions.RenewRequest) (grant abstractions.Grant, err error) {
	err = m.change(req.Name, false, func(r *providerkit.Record) (c providerkit.Change) {
		if c = r.Renew(req); c.Err == nil {
			grant = r.Grant(req.TTL)
		}
		return c
	})
	return grant, err
}

// RenewBatch renews the claims one after the other.
func (m *memory) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	for i := range reqs {
		results[i].Grant, results[i].Err = m.Renew(ctx, reqs[i])
	}
	return results, nil
}

func (m *memory) Release(_ context.Context, req abstractions.ReleaseRequest) error {
	return m.change(req.Name, true, func(r *providerkit.Record) providerkit.Change { return r.Release(req) })
}

func (m *memory) Break(_ context.Context, req abstractions.BreakRequest) (result abstractions.BreakResult, err error) {
	err = m.change(req.Name, false, func(r *providerkit.Record) (c providerkit.Change) {
		result, c = r.Break(req)
		return c
	})
	return result, err
}

func (m *memory) Inspect(_ context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	shown, _ := m.show(m.shardOf(req.Name), req.Name)
	return shown, nil
}
