package bloblease

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

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
