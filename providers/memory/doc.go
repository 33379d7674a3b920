// Package memlease keeps leases in the memory of one process. It is the
// reference implementation of [leasing.Provider] and of every optional
// ability, and the provider for tests of applications.
//
// # What it promises
//
// A [Provider] plays the role of the server. Managers that share a Provider
// exclude each other; two Providers are independent, and so are two
// processes. Within one Provider every promise of package leasing holds:
//
//   - Requests for one name are serialized by a lock, and decided by one clock.
//   - The clock is Go's monotonic clock, so a step of the wall clock frees a name
//     neither early nor late. ([Options].Now replaces the clock.) Go's clock stands
//     still while the machine is suspended; package leasing counts that time, and
//     so ends trust earlier.
//   - Others can acquire a name as soon as the lease's TTL has passed, to the
//     nanosecond.
//   - A claim that has expired is lost, even if no other claim has had the name since.
//   - Fencing tokens rise strictly for as long as the provider lives, even if the
//     wall clock steps. The tokens of a provider that is made later, in
//     this or another process, are higher unless the wall clock has gone back.
//
// It does not promise durability: the leases end with the process. Several
// processes need a real backend.
//
// # How it works
//
// Each name has a record in one of 64 maps, each with its own lock. After its lease
// has ended, a record is kept for [Options].Retention with its token and the
// last released IDs. Each acquire and release checks two records of its map
// and deletes expired ones, so no background goroutine is needed. An idle
// provider frees no memory.
//
// The only goroutines are short-lived, one for each wait that ends, and the
// only blocking is on mutexes. So a provider made inside a testing/synctest
// bubble runs in virtual time.
package memlease
