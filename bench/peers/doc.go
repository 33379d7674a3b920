// Command peers measures this library side by side with every Go library for
// locks in Redis that people use, and with floors that none can beat:
//
//	make bench-peers
//	make bench-peers PEERS='-workloads cycles,contended -rounds 5'
//
// It needs LEASING_TEST_REDIS and, for the peers that run on three independent
// servers, LEASING_TEST_REDLOCK; scripts/with-servers redis redlock starts them.
// Nothing but keys of its own is deleted there. With the defaults it takes about
// two hours, most of it the leases that are held for a minute each.
//
// # How it measures
//
// One measurement is one workload in one variant with one peer. Each runs in a
// process of its own, this program again, so that CPU time, memory and
// goroutines are that peer's alone, and no library warms another's caches.
// There are several rounds of everything, and within a round the peers take
// turns, in another order each time: what disturbs the machine for a while hits
// all of them. A table shows the median over the rounds, or the worst of them
// where it says worst; -json has every round.
//
// Peers run with the settings of their own documentation, through one client
// each where a variant does not ask for several: go-redis with its defaults and
// contexts obeyed, rueidis with its defaults. Those that don't renew get the
// loop that their users write: a goroutine with a ticker for each lock. This
// library runs with its defaults and with the OpenTelemetry SDK collecting its
// metrics; the others have none to collect. It is the only one whose cycles
// include a renewal schedule, fencing tokens and memory of what was released.
//
// # What the columns mean
//
// Commands are those that the client sends, counted on its connections below
// the library, the same way for all; what a script calls inside the server is
// not in them. A script that renews 256 leases is one command, and a pipeline of
// 256 is 256 of them: look at the CPU time as well. Client CPU is user and
// system time of the peer's process (getrusage); server CPU is that of all its
// servers (INFO cpu). Heap is what lives after a garbage collection, with the
// goroutines' stacks; RSS is resident memory, with everything that the
// collector has not given back. "of leasing" is a peer's headline figure, the
// first column, divided by this library's on as many servers; "of floor" by the
// floor's.
//
//   - cycles: goroutines acquire and release names of their own, as fast as they
//     can. failed counts attempts that ended in an error; they are no cycles.
//   - held: leases are acquired over 0.6 of the TTL, evenly, since those of a real
//     program are not in phase; then they are kept for a while. lost counts those
//     that their library gave up or that were gone at their release.
//   - handoff: one holds a name for 20 to 120 ms, at random so that polling is
//     met in any phase, while others wait; the time runs from the call of its
//     release to when the next one has the name. The floor is a bare PUBLISH to
//     one of as many subscribers.
//   - idle: what waiters cost while a holder that renews keeps them waiting.
//     Only the waiters' client is counted.
//   - takeover: the holder, a process, gets SIGKILL; the time runs from the
//     moment at which the server lets go of its lock to when the next one has it.
//     That moment is asked from the server after the kill; it is good to a
//     millisecond. stuck counts those that had not noticed ten seconds and three
//     TTLs later. rueidislock waits until Redis itself comes across the expired
//     key, which here it soon does, since there are hardly any others.
//   - contended: goroutines fight for one name, hold it for a millisecond
//     (time.Sleep), and come again at once. A section is one holding; it is also
//     a hand-off if another goroutine had the name before. A library that lets
//     the last holder in again first has many sections and few hand-offs. Fairness is
//     Jain's index over the goroutines, from 1/n (one had all) to 1; starved
//     counts those that got nothing.
//
// A difference of a few percent is noise. Peers that fail a measurement are
// reported with the reason, and the exit code is then 1.
package main
