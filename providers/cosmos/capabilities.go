package cosmoslease

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// minTTL is a few times what the service's seconds and the skew of its
	// clocks may hide.
	minTTL = 5 * time.Second
	// maxTTL keeps instants within what Go can count.
	maxTTL = 100 * 365 * 24 * time.Hour
)

func capabilitiesOf(e expiry) abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       "cosmos",
		MinTTL:         minTTL,
		MaxTTL:         maxTTL,
		Granularity:    time.Millisecond,
		Infinite:       true,
		Clock:          "Cosmos DB's clocks, _ts and Date",
		Lateness:       abstractions.Lateness{Fixed: e.precision()},
		RemainingKnown: true,
	}
}
