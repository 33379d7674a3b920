package cosmoslease

import (
	"context"
	"net/url"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

const (
	// minTTL is a few times what the service's seconds and the skew of its
	// clocks may hide.
	minTTL = 5 * time.Second
	// maxTTL keeps instants within what Go can count.
	maxTTL = 100 * 365 * 24 * time.Hour
	// resolution is that of the service's times, _ts and Date.
	resolution = time.Second
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Azure Cosmos DB, for leasing.NewManager. Make
// one with Open or OpenURL. It is safe for concurrent use.
//
// Its optional abilities are abstractions.Lister and abstractions.Pinger, which costs a request unit.
type Provider struct {
	*shell
	driver *driver
}

// driver is what of the provider knows the service. The rules are Records'.
type driver struct {
	providerkit.Records
	store *store
	end   context.CancelFunc // of the wire's lifetime
}

func newProvider(o Options, keys livefile.Source) *Provider {
	lifetime, end := context.WithCancel(context.Background())
	ids := naming(o.Prefix)
	s := &store{
		connection: &connection{options: o, keys: keys, wire: newWire(lifetime, o.ClientOptions.Transport), finding: make(chan struct{}, 1)},
		naming:     ids,
	}
	s.connection.wire.account, _ = url.Parse(o.Endpoint) // complete has seen to it
	d := &driver{store: s, end: end}
	d.Records = providerkit.Records{
		Store: s, Key: ids.Encode, FloorKey: ids.Floor(), Lagging: true, Classify: d.Classify,
		Expiry:    &providerkit.Expiry{Resolution: resolution, Skew: o.ClockSkew},
		Retention: o.Retention, ManualSweep: true,
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}
}

// naming makes the IDs of documents. They are far shorter than the service's limit
// of 1023 bytes: learn.microsoft.com/azure/cosmos-db/concepts-limits.
func naming(prefix string) providerkit.Naming {
	n := providerkit.Naming{Max: 250}
	if prefix != "" {
		n.Prefix = n.Encode(prefix) + ":"
	}
	return n
}

// Capabilities returns what is documented at the package.
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

// Close ends requests that are under way, whose outcome is unknown then, and waits
// for them. Leases are not released. A credential or transport of the user's stays
// as it is.
func (p *Provider) Close() error {
	p.driver.end() // of what azcosmos does under no context of a call
	return p.shell.Close()
}

// Sweep forgets the names that have been free for longer than Options.Retention,
// and returns how many. It asks for the documents that nobody has written since,
// and deletes each on condition that it is still the same, until it is through or
// ctx ends. A document costs about as much to delete as to write.
//
// Nothing is swept without a call. Call it now and then where names are used once,
// from one process, for example under a lease; or set Options.ExpireDocuments.
//
// A name is forgotten only while its fencing token lies behind the service's clock,
// so that its next holder gets a greater one nevertheless.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}
