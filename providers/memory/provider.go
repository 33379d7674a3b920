package memlease

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	shards = 64 // a power of two
	// minTTL keeps a lease longer than the noise of scheduling.
	minTTL = time.Millisecond
)

var capabilities = abstractions.Capabilities{
	Provider:       "memory",
	MinTTL:         minTTL,
	Infinite:       true,
	Clock:          "the process's monotonic clock",
	RemainingKnown: true,
}

// Provider keeps leases in memory. Make one with New, Open or OpenURL and
// share it between the managers that are to exclude each other. It is safe for
// concurrent use.
type Provider struct {
	options Options
	// start is when the provider was made; instants are counted from it, so
	// that comparisons use the clock's monotonic reading where it has one.
	start  time.Time
	seed   maphash.Seed
	closed atomic.Bool
	shards [shards]shard
}

var (
	_ abstractions.Provider      = (*Provider)(nil)
	_ abstractions.BatchRenewer  = (*Provider)(nil)
	_ abstractions.Waiter        = (*Provider)(nil)
	_ abstractions.Lister        = (*Provider)(nil)
	_ abstractions.Pinger        = (*Provider)(nil)
	_ abstractions.HistoryReader = (*Provider)(nil)
)

// New makes a provider. It panics on options for which Open returns an error.
func New(options Options) *Provider {
	options, err := options.withDefaults()
	if err != nil {
		panic("memlease: " + err.Error())
	}
	return newProvider(options)
}

func newProvider(options Options) *Provider {
	p := &Provider{options: options, start: options.Now(), seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].records = make(map[string]*record)
	}
	return p
}

// As answers for the optional abilities: all of them, and
// leasing.HistoryReader if history is kept.
func (p *Provider) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		*ability = p
	case *abstractions.Waiter:
		*ability = p
	case *abstractions.Lister:
		*ability = p
	case *abstractions.Pinger:
		*ability = p
	case *abstractions.HistoryReader:
		if p.options.History == 0 {
			return false
		}
		*ability = p
	default:
		return false
	}
	return true
}

// Capabilities returns what is documented at the package.
func (p *Provider) Capabilities() abstractions.Capabilities { return capabilities }

// Ping reports whether the provider is open.
func (p *Provider) Ping(ctx context.Context) error { return p.usable(ctx) }

// Close ends the provider for everybody who shares it: every method returns
// leasing.ErrClosed from then on. Closing again does nothing.
func (p *Provider) Close() error {
	p.closed.Store(true)
	return nil
}

// usable is the first question of every method, asked before anything is changed.
func (p *Provider) usable(ctx context.Context) error {
	if p.closed.Load() {
		return abstractions.ErrClosed
	}
	return ctx.Err()
}

// admit asks it, and whether the request can work.
func admit[R interface {
	Validate(abstractions.Capabilities) error
}](ctx context.Context, p *Provider, req R) error {
	if err := p.usable(ctx); err != nil {
		return err
	}
	return req.Validate(capabilities)
}

func (p *Provider) shardOf(name string) *shard {
	return &p.shards[maphash.String(p.seed, name)%shards]
}

// moment is one reading of the clock. It is taken under the lock of a name, so
// that the moments of a name's changes never go back.
type moment struct {
	at   instant
	wall time.Time
}

// instant counts nanoseconds since the provider was made.
type instant int64

const never = instant(abstractions.Infinite)

func (p *Provider) now() moment {
	wall := p.options.Now()
	return moment{at: instant(wall.Sub(p.start)), wall: wall}
}

// plus returns the end of a TTL.
func (i instant) plus(ttl time.Duration) instant {
	if ttl == abstractions.Infinite {
		return never
	}
	return min(i, never-1-instant(ttl)) + instant(ttl)
}

// time returns an instant as Record shows it: comparable with the others of
// this provider whatever the wall clock did since.
func (p *Provider) time(i instant) time.Time {
	return p.start.Add(time.Duration(i)).Round(0)
}
