// Package folderlease is the provider of one host without a server: leases are
// files in a folder that the host's processes share.
//
//	provider, err := folderlease.Open(ctx, folderlease.Options{Folder: "/var/lib/myapp/leases", Create: true})
//
// # What it promises
//
// All that package leasing does, between the processes of one host, and containers
// that mount the same folder:
//
//   - A process that is killed at any instruction leaves a whole record and no lock.
//   - The host's clock decides, on Linux CLOCK_BOOTTIME: a step of the wall clock frees
//     no name early and keeps none late, and time in suspend counts. After a reboot,
//     and on other systems, the wall clock decides. A step back then prolongs a lease
//     by its TTL at most.
//   - A claim that has expired is lost, even if nobody has taken the name since.
//   - A crash of the host may lose the last writes, and every holder with them. Tokens
//     rise all the same, unless the wall clock went back too.
//
// # What it does not promise
//
// Nothing across hosts. Open refuses the network file systems that it knows, and all
// in user space, through which virtual machines share folders. It knows them on
// Linux only; elsewhere choose a local disk.
//
// Whoever may write in the folder can end every lease: deleting a file ends its lease,
// and deleting a lock during a write lets two in. Waiters poll. A process that is
// stopped in the middle of a write (SIGSTOP, a debugger) holds up one name in 256:
// calls for them time out until it goes on or is killed. Who waits is written
// nowhere: Manager.Waiters is leasing.ErrUnsupported.
//
// # How it works
//
// The lease "jobs/daily" is the file jobs~2Fdaily.lease (see [providerkit.Naming]): a line of
// JSON with name, latest token, holder, deadline on both clocks and the IDs that are
// refused. Where the file system does not tell upper case from lower, the second of
// two names that differ in that alone is refused with abstractions.ErrNotSetUp.
//
// A read takes no lock. A write takes one of 256 with flock(2), in the folder .locks;
// the kernel frees it with the process. It compares the file with what was read,
// writes and syncs a new one beside the lock, and renames that to the record. The next
// writer replaces what a killed one has left beside the lock. An empty file is no
// record. Nor is a damaged one from before the host's present boot; in this boot it
// is abstractions.ErrNotSetUp, and an operator has to look.
//
// Some releases forget a few names that have been idle for Options.Retention, and
// [Provider.Sweep] forgets all. A call ends with its context, though the disk may hang.
// Linux, macOS and FreeBSD can do all that; elsewhere Open fails.
package folderlease
