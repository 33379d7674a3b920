package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0, 1},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{3, 1, 2}, 1, 3},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{10, 20, 30, 40, 50}, 0.9, 46},
		{[]float64{1, 100}, 0.99, 99.01},
	} {
		assert.InDelta(t, c.want, Quantile(c.values, c.q), 1e-9, "%v at %v", c.values, c.q)
	}
	assert.True(t, math.IsNaN(Median([]int{})))
	assert.Equal(t, float64(2*time.Second), Median([]time.Duration{3 * time.Second, time.Second, 2 * time.Second}))
}

func TestQuantileLeavesTheOrder(t *testing.T) {
	values := []int{3, 1, 2}
	Median(values)
	assert.Equal(t, []int{3, 1, 2}, values)
}

func TestQuantileIsMonotonicAndWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(-1000, 1000), 1, 50).Draw(t, "values")
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		q := rapid.Float64Range(p, 1).Draw(t, "q")
		least, low, high, largest := Quantile(values, 0), Quantile(values, p), Quantile(values, q), Quantile(values, 1)
		if least > low+1e-9 || low > high+1e-9 || high > largest+1e-9 {
			t.Fatalf("%v <= %v <= %v <= %v does not hold", least, low, high, largest)
		}
	})
}

func TestJain(t *testing.T) {
	assert.Equal(t, 1.0, Jain([]int64{5, 5, 5, 5}))
	assert.Equal(t, 0.25, Jain([]int64{12, 0, 0, 0}))
	assert.InDelta(t, 36.0/(3*14), Jain([]int64{1, 2, 3}), 1e-12)
	assert.True(t, math.IsNaN(Jain([]int64{0, 0})))
}

// TestJainHasItsBounds: between 1/n and 1, and the same in any unit.
func TestJainHasItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(0.1, 1000), 1, 64).Draw(t, "shares")
		index := Jain(shares)
		if index > 1+1e-9 || index < 1/float64(len(shares))-1e-9 {
			t.Fatalf("%v is out of bounds for %d shares", index, len(shares))
		}
		tenfold := make([]float64, len(shares))
		for i, share := range shares {
			tenfold[i] = 10 * share
		}
		if math.Abs(Jain(tenfold)-index) > 1e-9 {
			t.Fatalf("%v and %v", Jain(tenfold), index)
		}
	})
}
