package main

import (
	"cmp"
	"math"
	"slices"
)

// median returns the middle value, or the mean of the two middle values. It returns NaN if there
// are no values.
func median[T ~int64 | ~float64](values []T) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[T])
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}

// jain returns Jain's fairness index of the shares: 1 if all are equal, 1/n if
// one of n got all, NaN if all shares are 0. See Jain, Chiu and Hawe, A
// Quantitative Measure of Fairness, DEC-TR-301, 1984.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, share := range shares {
		sum += float64(share)
		squares += float64(share) * float64(share)
	}
	return sum * sum / (float64(len(shares)) * squares)
}
