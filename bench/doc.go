// Package bench measures the library; it is never released. Run it with
// `make bench`, or a part with BENCH=regexp.
package bench
