package dialect

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestTTLIsRoundedUpToMicroseconds(t *testing.T) {
	require.Nil(t, Micros(abstractions.Infinite))
	require.EqualValues(t, 1, *Micros(1))
	require.EqualValues(t, 1000, *Micros(time.Millisecond))
	require.EqualValues(t, 1001, *Micros(time.Millisecond + 1))
	for _, ttl := range []time.Duration{time.Microsecond, time.Hour, maxTTL, abstractions.Infinite} {
		require.Equal(t, ttl, FromMicros(Micros(ttl)))
	}
}
