package cosmoslease

import (
	"context"
	"net/url"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

const (
	// minTTL is a few times the error that whole seconds and the skew between the
	// service's clocks cause.
	minTTL = 5 * time.Second
	// maxTTL keeps instants within the range of Go's types.
	maxTTL = 100 * 365 * 24 * time.Hour
	// resolution is the resolution of the service's times, _ts and Date.
	resolution = time.Second
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Azure Cosmos DB, for leasing.NewManager. Make
// one with Open or OpenURL. It is safe for concurrent use.
//
// It also implements abstractions.Lister and abstractions.Pinger. A ping costs one request
// unit.
type Provider struct {
	*shell
	driver *driver
}

// driver is the part of the provider that depends on the service. The embedded Records
// implements the rules of leases.
type driver struct {
	cas.Records
	store *store
	end   context.CancelFunc // ends the wire's lifetime
}

func newProvider(o Options, keys livefile.Source) *Provider {
	lifetime, end := context.WithCancel(context.Background())
	ids := naming(o.Prefix)
	s := &store{
		connection: &connection{options: o, keys: keys, wire: newWire(lifetime, o.ClientOptions.Transport), finding: make(chan struct{}, 1)},
		naming:     ids,
	}
	s.connection.wire.account, _ = url.Parse(o.Endpoint) // complete has checked the endpoint
	d := &driver{store: s, end: end}
	d.Records = cas.Records{
		Store: s, Key: ids.Encode, FloorKey: ids.Floor(), Lagging: true, Classify: d.Classify,
		Expiry:    &cas.Expiry{Resolution: resolution, Skew: o.ClockSkew},
		Retention: o.Retention, ManualSweep: true,
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}
}

// naming makes the IDs of documents. They are far shorter than the service's limit
// of 1023 bytes: learn.microsoft.com/azure/cosmos-db/concepts-limits.
func naming(prefix string) cas.Naming {
	n := cas.Naming{Max: 250}
	if prefix != "" {
		n.Prefix = n.Encode(prefix) + ":"
	}
	return n
}

// Capabilities returns the limits that the package documentation states.
func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       "cosmos",
		MinTTL:         minTTL,
		MaxTTL:         maxTTL,
		Granularity:    time.Millisecond,
		Infinite:       true,
		Clock:          "Cosmos DB's clocks, _ts and Date, or the monotonic clock of the process that asks",
		Lateness:       d.Expiry.Lateness(),
		RemainingKnown: true,
		ReadsMayLag:    true,
	}
}

func (d *driver) Close() error {
	d.store.connection.close()
	return nil
}

// Close cancels requests in flight, whose outcome is then unknown, and waits until they
// have ended. Leases are not released. The application's own credential or transport
// stays usable.
func (p *Provider) Close() error {
	p.driver.end() // ends azcosmos' work outside the contexts of calls
	return p.shell.Close()
}

// Sweep forgets the names that have been free for longer than Options.Retention, and
// returns their number. It lists the documents whose last write is older than that, and
// deletes each if it is unchanged, until the list or ctx ends. A deletion costs about
// as much as a write.
//
// Nothing is swept automatically. If names are used only once, call Sweep regularly,
// from one process, for example under a lease; or set Options.ExpireDocuments.
//
// A name is forgotten only while its fencing token is behind the service's clock, so
// that its next holder still gets a greater token.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}
