package sqllease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestTTLIsRoundedUpToMicroseconds(t *testing.T) {
	require.Nil(t, micros(abstractions.Infinite))
	require.EqualValues(t, 1, *micros(1))
	require.EqualValues(t, 1000, *micros(time.Millisecond))
	require.EqualValues(t, 1001, *micros(time.Millisecond + 1))
	for _, ttl := range []time.Duration{time.Microsecond, time.Hour, maxTTL, abstractions.Infinite} {
		require.Equal(t, ttl, fromMicros(micros(ttl)))
	}
}
