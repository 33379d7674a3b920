// Package azuritetest starts Azurite, the emulator of Azure Blob Storage, for the
// tests of this module, which may pause, kill and restart it.
//
// A server listens on a loopback port of its own, keeps everything in memory, and
// ends with the test, or at the latest with the test's process. [Shared] is one for
// all tests that do it no harm.
//
// The program is the npm package azurite in the cache where
// scripts/with-servers puts it, or the file that the environment variable AZURITE
// names, run by node. Where it is missing the tests fail; they never skip.
//
// What goes wrong ends the test by [testing.TB.FailNow], so call this package
// from the goroutine that runs the test. A server's methods may be called
// concurrently.
package azuritetest
