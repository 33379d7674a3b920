package script

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestATokenHasSixteenDigits(t *testing.T) {
	for _, token := range []int64{0, 1, 9, 10, 99, 1e14, 1e15 - 1, 1e15, 1795347159570123, abstractions.MaxToken, math.MaxInt64} {
		require.Equal(t, fmt.Sprintf("%016d", token), tokenText(token))
	}
	require.Equal(t, tokenText(0), tokenText(-1))
}

func TestSpansAreThoseOfTheirTTL(t *testing.T) {
	for _, c := range []struct {
		retention, ttl time.Duration
		want           Span
	}{
		{time.Hour, time.Minute, Span{60000, 3660000}},
		{time.Hour, time.Second, Span{1000, 3601000}},
		{0, time.Second, Span{1000, 0}},
		{time.Minute, time.Second, Span{1000, 61000}},
		{time.Minute, abstractions.Infinite, Span{0, 0}},
	} {
		require.Equal(t, c.want, Naming{Retention: c.retention}.Keys("n").span(c.ttl))
	}
	require.Equal(t, Span{0, 60000}, Naming{Retention: time.Minute}.Keys("n").span(0))
	require.Equal(t, Span{0, 0}, Naming{}.Keys("n").span(0))
}
