// Command peers measures this library side by side with the widely used Go libraries for locks in
// Redis, and prints one table:
//
//	make bench-peers
//	make bench-peers PEERS='-workloads cycles,contended'
//	make bench-peers PEERS=-long
//	make bench-peers BACKEND=postgres
//
// On PostgreSQL and SQLite the peers are the locks that people write themselves: a bare
// upsert and delete, pg_advisory_lock, flock(2). The upsert can't wait, and the others store
// nothing, so each runs only some of the workloads. cirello.io/pglock is not among them, since the
// proxy of Go modules does not serve that module.
//
// It needs LEASING_TEST_REDIS and, for Redlock on three independent servers,
// LEASING_TEST_REDLOCK; scripts/with-servers redis redlock starts these servers. It
// deletes only its own keys on the servers. It takes about ten minutes, with -long more
// than an hour.
//
// # How it measures
//
// Each measurement of one workload with one peer runs this program in a process of its own, so that
// CPU time, memory and goroutines are that peer's alone, and no library warms another's caches.
// There are several rounds, and within a round the peers of a workload take turns, in a different
// order each time, so that a disturbance of the machine affects all peers. The table shows the
// median over the rounds, or the worst round where a row says worst. The workloads held, idle,
// idle-processes and takeover have one round, or with -long as many rounds as the others.
//
// Peers run with the settings of their own documentation: go-redis with its defaults, except that
// contexts are obeyed, rueidis with its defaults; redislock with a retry every 100 ms, redsync with
// its own retries after 50 to 250 ms, rueidislock with KeyMajority 1, as its README advises for one
// Redis. Libraries that don't renew get the loop that their users write: a goroutine with a ticker
// for each lock. This library runs with its defaults and with the OpenTelemetry SDK collecting its
// metrics; the others have no metrics to collect. Only this library's cycles include a renewal
// schedule, fencing tokens and a memory of released claims.
//
// # What the table means
//
// A ratio is this library's figure divided by that of the best peer; the sync.Mutex
// is not a peer. In rows where more is better, a ratio above 1 is good; in the others, one below 1.
//
// Commands are those that the client sends, counted on its connections below
// the library, the same way for all; calls of a script inside the server are
// not counted. Client CPU is user and system time of the peer's process
// (getrusage); server CPU is that of all its servers (INFO cpu). Heap is the live memory
// after a garbage collection, with the goroutines' stacks; RSS is resident memory,
// including memory that the collector has freed but not returned to the system. Server memory is
// used_memory.
//
//   - cycles: goroutines acquire and release names of their own, as fast as
//     possible. failed counts attempts that ended in an error; they do not count as cycles.
//   - handoff: the holder keeps a name for 20 to 120 ms, at random, so that the
//     release comes at any phase of a poll, while others wait; the time runs from the
//     start of the release until the next holder has the name.
//   - contended: clients compete for one name, hold it for a millisecond
//     (time.Sleep), and try again at once. An acquisition is a hand-off if another client had the
//     name before. Fairness is Jain's index over the clients, from 1/n (one client had every turn)
//     to 1.
//   - held: leases are acquired evenly over 0.6 of the TTL, since the leases of a
//     real program are not in phase; then all are kept for a while. lost counts
//     the leases that their library gave up or that were gone at their release.
//   - idle: the cost of waiters while a holder renews its lease.
//     Only the waiters' client is counted.
//   - takeover: the holder, a process, gets SIGKILL; the time runs from the moment at
//     which the server frees the name until the next holder has the name. The program
//     asks the server for that moment after the kill; the answer is exact to a
//     millisecond. stuck counts the waiters that still had no name after ten seconds plus three
//     TTLs.
//
// A difference of a few percent is noise. A round in which a peer failed is listed
// below the table with the reason. The exit code is 1 if a measurement failed in
// every round.
package main
