// Package leasing gives a name to one holder at a time, across processes and
// machines, over a backend you already run.
package leasing
