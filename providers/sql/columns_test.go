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

func TestBytesInHex(t *testing.T) {
	for column, want := range map[any]string{nil: "", "": "", "00ff": "\x00\xff"} {
		var b inHex
		require.NoError(t, b.Scan(column))
		require.Equal(t, want, string(b))
	}
	var b inHex
	require.NoError(t, b.Scan([]byte("00ff")))
	require.Equal(t, "\x00\xff", string(b))
	require.Error(t, b.Scan("\\x00"))
}
