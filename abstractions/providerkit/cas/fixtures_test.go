package cas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// held returns the record of a lease that claim "mine" holds for another
// minute.
func held() providerkit.Record {
	return providerkit.Record{Name: "n", Token: 7, ID: "mine", Owner: "me", TTL: time.Minute, AcquiredAt: noon.Add(-time.Hour), Now: noon, Left: time.Minute}
}

func acquire(id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: "n", ID: id, Owner: "owner of " + id, TTL: ttl}
}

func lostBecause(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}
