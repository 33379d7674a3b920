// Package servertest runs programs for tests, which may pause, kill and restart them: a
// [Process] whose command is the caller's, a [Server] on a loopback port of its own, and
// [Postgres], and [NewMariaDB]. Each ends with the program that has started it, on Linux even if that is killed.
//
// What each is in production:
//
//	Pause  a long garbage collection, a suspended virtual machine
//	Kill   out of memory, a power failure
//
// A server also ends with its test. What goes wrong with one ends the test by
// [testing.TB.FailNow], so call it from the goroutine that runs the test. The methods of
// both may be called concurrently.
//
// [LeasesEndInTime] and [LossIsTold] hold a provider to its promises on servers. A [Wire] is between a client and its HTTP server.
package servertest
