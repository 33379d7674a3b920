// Package bench measures the library; it is never released. Run it with
// `make bench`, or a part with BENCH=regexp. Command peers, in a folder of its
// own, compares the library with others: `make bench-peers`.
package bench
