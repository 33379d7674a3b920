package trust

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWindow(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		30 * time.Second:       30*time.Second - 300*time.Millisecond - 2*time.Millisecond,
		300 * time.Millisecond: 295 * time.Millisecond,
		2 * time.Millisecond:   -20 * time.Microsecond,
		Forever:                Forever,
	} {
		require.Equal(t, want, Window(ttl, 0.01, 2*time.Millisecond), ttl)
	}
}

func TestTrustIsShorterThanTheTTLByTheDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factor, floor := rapid.Float64Range(1e-6, 0.49).Draw(t, "factor"), time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "floor"))
		ttl := time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "ttl"))
		window := Window(ttl, factor, floor)
		if window >= ttl || float64(ttl-window) < float64(ttl)*factor {
			t.Fatalf("window %v of %v", window, ttl)
		}
		sent := Instant{time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "mono")), time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "boot"))}
		until := sent.Add(window)
		if until.Left(sent) != window {
			t.Fatalf("left %v of %v", until.Left(sent), window)
		}
		suspended := time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "suspended"))
		if left := until.Left(Instant{sent.Mono, sent.Boot + suspended}); left != window-suspended {
			t.Fatalf("left %v after %v suspended", left, suspended)
		}
	})
}
