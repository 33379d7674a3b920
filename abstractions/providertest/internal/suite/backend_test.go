package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestTTLsOfABackend(t *testing.T) {
	for _, tt := range []struct {
		backend     Backend
		caps        abstractions.Capabilities
		short, long time.Duration
	}{
		{Backend{}, abstractions.Capabilities{}, 300 * time.Millisecond, time.Minute},
		{Backend{Virtual: true}, abstractions.Capabilities{}, 10 * time.Second, time.Minute},
		{Backend{TTL: time.Second}, abstractions.Capabilities{MinTTL: time.Millisecond}, time.Second, time.Minute},
		{Backend{}, abstractions.Capabilities{MinTTL: 15 * time.Second, MaxTTL: time.Minute, Granularity: time.Second}, 15 * time.Second, time.Minute},
		{Backend{TTL: time.Hour}, abstractions.Capabilities{}, time.Hour, time.Hour},
		{Backend{TTL: 16500 * time.Millisecond}, abstractions.Capabilities{MinTTL: 15 * time.Second, MaxTTL: 40 * time.Second, Granularity: time.Second}, 17 * time.Second, 40 * time.Second},
		{Backend{}, abstractions.Capabilities{MinTTL: 2 * time.Minute}, 2 * time.Minute, 2 * time.Minute},
	} {
		short, long := tt.backend.ttls(tt.caps)
		assert.Equal(t, tt.short, short, "%+v", tt)
		assert.Equal(t, tt.long, long, "%+v", tt)
	}
}
