// Package redistest starts Redis servers for the tests of this module: alone,
// as a cluster, or watched by sentinels. The tests may pause, kill and restart
// the servers.
//
// Each server listens on a loopback port of its own, keeps its files in a
// folder of the test, and ends with the test, or at the latest with the test's
// process. The program is redis-server of Redis 7.0 or later, found on PATH or
// in the environment variable REDIS_SERVER. Tests skip if LEASING_TEST_REDIS is
// not set; if it is set, they fail without the program.
//
// After some failed dials, a go-redis client keeps a goroutine for up to a second after
// its Close; goleak has to ignore
// "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial".
//
// An unexpected error ends the test by [testing.TB.FailNow], so call this package
// from the goroutine that runs the test. A server's methods may be called
// concurrently.
package redistest
