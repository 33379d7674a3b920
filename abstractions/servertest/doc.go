// Package servertest runs programs that tests pause, kill and restart: a [Process] with the caller's command, a
// [Server] on its own loopback port, [Postgres] with a standby, [NewPgBouncer], and [NewMariaDB]. Each ends with the program that started it,
// on Linux even if that program is killed.
//
// Typical causes of a pause or a kill in production:
//
//	Pause  a long garbage collection, a suspended virtual machine
//	Kill   out of memory, a power failure
//
// A Server also ends with its test. Its failures end the test with [testing.TB.FailNow],
// so call its methods from the test's goroutine. The methods of Process and Server may
// be called concurrently.
//
// The package requires only the root module, since programs import it through package torture.
package servertest
