// Package testserver runs the server programs of tests, each on a loopback port of
// its own. The tests may pause, kill and restart them.
//
// A server ends with its test, or at the latest with the test's process. What goes
// wrong ends the test by [testing.TB.FailNow], so call this package from the
// goroutine that runs the test. A server's methods may be called concurrently.
package testserver
