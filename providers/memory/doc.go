// Package memlease is the in-process provider: leases over the memory of one
// process. It is the reference implementation of [leasing.Provider] and of
// every optional ability, and what tests of applications run on.
//
// # What it promises
//
// A [Provider] stands for the server. Managers that share one exclude each
// other; two providers know nothing of each other, and neither do two
// processes. Within that, every promise of package leasing holds:
//
//   - Decisions about one name are made one at a time, under a lock, by one clock.
//   - The clock is Go's monotonic one, so a step of the wall clock neither
//     frees a name early nor keeps it late. (With [Options].Now it is yours.)
//     It stands still while the machine is suspended, as does everything else
//     in the process; package leasing counts that time and ends trust earlier.
//   - A lease is free to others in the nanosecond its TTL has passed: not
//     before, and not after.
//   - A claim that has expired is lost, even if nobody has taken the name since.
//   - Fencing tokens rise strictly for as long as the provider lives, whatever
//     the wall clock does. A provider made later, in this or another process,
//     goes on above them as long as the wall clock has not gone back.
//
// It does not promise durability: the leases end with the process. It is no
// substitute for a real backend where several processes must agree.
//
// # How it works
//
// One record per name, in one of 64 maps with a lock each. A record is kept
// after its lease has ended (the token, the last IDs that were given up) and
// forgotten [Options].Retention later: each acquire and release looks at two
// records of its map, so memory follows use without a goroutine and without a
// pause.
// A provider that is not used keeps what it has.
//
// There are no goroutines but short-lived ones for each wait that ends, and
// nothing blocks but a mutex for a moment, so a provider made inside a
// testing/synctest bubble runs in virtual time.
package memlease
