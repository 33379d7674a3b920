package abstractions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// A guessed time of the last renewal would make a dead holder look alive.
func TestTrap_T266_TheLastRenewalIsKnownOrNotSaid(t *testing.T) {
	start := time.Unix(1_000_000_000, 0)
	after := func(d time.Duration) time.Time { return start.Add(d) }
	for what, c := range map[string]struct {
		record abstractions.Record
		at     time.Time // zero if unknown
	}{
		"held":                           {abstractions.Record{Held: true, TTL: time.Minute, AcquiredAt: start, ExpiresAt: after(90 * time.Second), Now: after(time.Minute)}, after(30 * time.Second)},
		"without the backend's time":     {abstractions.Record{Held: true, TTL: time.Minute, ExpiresAt: after(90 * time.Second)}, after(30 * time.Second)},
		"broken, and running out":        {abstractions.Record{Held: true, Breaking: true, TTL: time.Minute, ExpiresAt: after(time.Minute), Now: start}, start},
		"late, by the store's grace":     {abstractions.Record{Held: true, TTL: time.Minute, ExpiresAt: after(62 * time.Second), Now: after(time.Second)}, after(time.Second)},
		"early, by a clock's resolution": {abstractions.Record{Held: true, TTL: time.Minute, AcquiredAt: after(time.Millisecond), ExpiresAt: after(time.Minute), Now: after(time.Second)}, after(time.Millisecond)},
		"free":                           {record: abstractions.Record{TTL: time.Minute, ExpiresAt: after(time.Minute), Now: start}},
		"infinite":                       {record: abstractions.Record{Held: true, TTL: abstractions.Infinite, Now: start}},
		"infinite, broken with a grace":  {record: abstractions.Record{Held: true, Breaking: true, TTL: abstractions.Infinite, ExpiresAt: after(time.Second), Now: start}},
		"unconfirmed":                    {record: abstractions.Record{Held: true, Unconfirmed: true, TTL: time.Minute, ExpiresAt: after(time.Minute), Now: start}},
		"without an end":                 {record: abstractions.Record{Held: true, TTL: time.Minute, AcquiredAt: start, Now: start}},
	} {
		at, known := c.record.LastRenewed()
		require.Equal(t, !c.at.IsZero(), known, what)
		require.Equal(t, c.at, at, what)
	}
}
