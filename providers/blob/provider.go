package bloblease

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

type shell = providerkit.Provider

// Provider is a leasing provider over Azure Blob Storage. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are leasing.Lister and leasing.Pinger. The service has no
// batches of lease operations, and pushes nothing: renewals are sent one by one,
// and waiters poll.
//
// Break accepts a Grace of at most 60 s, the longest break period of the service, and
// rounds it up to seconds. Where another program has the lease, or the record was
// overwritten, a Break without a token ends that lease, and no other. A Release where
// there is no container remembers nothing: no acquire of that claim can have sent
// more than a look. Close closes
// idle connections unless they are those of Options.ClientOptions.Transport.
type Provider struct {
	*shell
	driver *driver
}

// driver is the verbs over a container.
type driver struct {
	store     store
	caps      abstractions.Capabilities
	retention time.Duration
	create    bool   // the container
	idle      func() // closes the connections that Open made
	tokens    providerkit.TokenClock
}

var (
	_ abstractions.Lister = (*driver)(nil)
	_ abstractions.Pinger = (*driver)(nil)
)

// provider wraps the driver. The client library does not always heed contexts: while
// it waits for a token that another call has asked for, it waits for that call
// (azcore's BearerTokenPolicy has one request for all).
func (d *driver) provider(timeout time.Duration) *Provider {
	return &Provider{shell: providerkit.New(d, providerkit.Config{Timeout: timeout, Detach: true}), driver: d}
}

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

func (d *driver) Close() error {
	d.idle()
	return nil
}

// What the service grants (learn.microsoft.com/rest/api/storageservices/lease-blob,
// x-ms-lease-duration).
const (
	minTTL = 15 * time.Second
	maxTTL = 60 * time.Second
	// lag is how long the service may refuse an expired lease to others: "a client
	// may need to wait up to one minute before a new lease can be acquired"
	// (the same page, Remarks). Azurite has none.
	lag = time.Minute
	// reservation is how long a name stays reserved for whoever has written its
	// claim and not yet taken the lease; see acquire.go. The round trip between
	// the two takes milliseconds, the service's clock shows whole seconds.
	reservation = 3 * time.Second
)

func capabilitiesOf(o Options) abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:    "blob",
		MinTTL:      minTTL,
		MaxTTL:      maxTTL,
		Granularity: time.Second,
		Infinite:    o.Infinite,
		Clock:       "the Blob service's clock",
		Lateness:    abstractions.Lateness{Fixed: lag + reservation},
	}
}

// infinite is the service's duration of a lease without an end.
const infinite int32 = -1

// seconds is a TTL as the service counts it, rounded up.
func seconds(ttl time.Duration) int32 {
	if ttl == abstractions.Infinite {
		return infinite
	}
	return int32((ttl + time.Second - 1) / time.Second)
}

func ttlOf(seconds int32) time.Duration {
	if seconds == infinite {
		return abstractions.Infinite
	}
	return time.Duration(seconds) * time.Second
}
