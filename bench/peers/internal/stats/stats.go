// Package stats has the arithmetic of the comparison.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Number is what can be summed up.
type Number interface {
	~int | ~int64 | ~float64
}

// Quantile returns the value below which the part q, from 0 to 1, of the values
// lies, with linear interpolation between the two nearest (type 7 of Hyndman
// and Fan, Sample Quantiles in Statistical Packages, 1996: what R and NumPy do).
// It is NaN for no values. They may be in any order, and stay in it.
func Quantile[T Number](values []T, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[T])
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	part := at - float64(below)
	return float64(sorted[below])*(1-part) + float64(sorted[above])*part
}

// Median is the quantile of 0.5.
func Median[T Number](values []T) float64 { return Quantile(values, 0.5) }

// Jain returns Jain's fairness index of the shares: 1 if all are equal, 1/n if
// one of n got all, NaN if nobody got anything. See Jain, Chiu and Hawe, A
// Quantitative Measure of Fairness, DEC-TR-301, 1984.
func Jain[T Number](shares []T) float64 {
	var sum, squares float64
	for _, share := range shares {
		sum += float64(share)
		squares += float64(share) * float64(share)
	}
	return sum * sum / (float64(len(shares)) * squares)
}
