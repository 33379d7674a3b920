package usage

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStatm(t *testing.T) {
	bytes, ok := parseStatm([]byte("90 12 4 2 0 30 0\n"))
	assert.True(t, ok)
	assert.EqualValues(t, 12*os.Getpagesize(), bytes)
	for _, text := range []string{"", "90", "90 x"} {
		_, ok := parseStatm([]byte(text))
		assert.False(t, ok, "%q", text)
	}
}

func TestRSSIsPlausible(t *testing.T) {
	if runtime.GOOS != "linux" {
		_, ok := RSS()
		require.False(t, ok)
		return
	}
	bytes, ok := RSS()
	require.True(t, ok)
	assert.Greater(t, bytes, int64(1<<20))
	assert.Less(t, bytes, int64(64<<30))
}

// TestHeapSeesLiveObjects only: garbage is not counted.
func TestHeapSeesLiveObjects(t *testing.T) {
	const size = 64 << 20
	before := Heap()
	live := make([]byte, size)
	assert.InDelta(t, size, Heap()-before, size/4)
	runtime.KeepAlive(live)
	assert.InDelta(t, 0, Heap()-before, size/4)
}

func TestMallocsCounts(t *testing.T) {
	before := Mallocs()
	for range 1000 {
		escaped = new(int)
	}
	assert.GreaterOrEqual(t, Mallocs()-before, int64(1000))
}

var escaped *int
