// Package filelease keeps leases as files in a folder that the processes of
// one host share. It needs no server.
//
//	provider, err := filelease.Open(ctx, filelease.Options{Folder: "/var/lib/myapp/leases", Create: true})
//
// # What it promises
//
// The provider keeps the promises of package leasing among the processes and containers of
// one host that share the folder:
//
//   - A process that is killed at any instruction leaves a complete record and no lock.
//   - The host's clock decides when a lease expires. On Linux that is CLOCK_BOOTTIME:
//     steps of the wall clock have no effect, and time in suspend counts. After a reboot,
//     and on other systems, the wall clock decides; a step back then prolongs a lease by
//     at most its TTL.
//   - A claim that has expired is lost, even if no other claim has had the name since.
//   - A crash of the host may lose the last writes, and ends every holder. Tokens
//     still rise, unless the wall clock also went back.
//   - The file ~~floor.lease has the highest token of the names that were forgotten. Tokens
//     of new names are above it, even if the wall clock was ahead for a while.
//
// # What it does not promise
//
// It promises nothing across hosts. On Linux, macOS and FreeBSD, Open refuses network
// file systems, and all user-space file systems, through which virtual machines share
// folders, unless Options.OneHost is set.
//
// Anyone who may write to the folder can end every lease: deleting a file ends its
// lease, and deleting a lock file during a write allows two holders. Waiters poll. A
// process that is stopped in the middle of a write (SIGSTOP, a debugger) blocks one
// name in 256: calls for these names time out until the process continues or is
// killed. Manager.Waiters returns leasing.ErrUnsupported.
//
// On a full disk, no name is acquired, released or renewed, since each of these writes a file. Held leases
// end with their TTLs. If the disk hangs, each call blocks a goroutine until the disk answers. Containers
// with time namespaces of their own (time_namespaces(7)) have different boot clocks, so for them the wall
// clock decides.
//
// List and Sweep leave out folders, sockets, FIFOs, symbolic links in a loop, and files that the process may not read.
// Requests for the names of these files are refused. Give all processes a umask that lets each read the others' files.
//
// # How it works
//
// The lease "jobs/daily" is the file jobs~2Fdaily.lease (see [cas.Naming]): a line of
// JSON with name, latest token, holder, deadline on both clocks and the IDs that are
// refused. On a case-insensitive file system, the second of two names that differ only in
// case is refused with abstractions.ErrNotSetUp.
//
// A read needs no lock. A write acquires one of 256 locks with flock(2), in the folder
// .locks; the kernel frees the lock when the process ends. The writer compares the file
// with its earlier read, writes and syncs a new file beside the lock, and renames the new
// file to the record's name. The next writer replaces a file that a killed writer has left
// behind. An empty file counts as no record, and so does a damaged file that was last
// written before the host's latest boot. Any other damaged file is reported as
// abstractions.ErrNotSetUp, and an operator must inspect the file.
//
// Some releases delete a few names that have been idle for Options.Retention;
// [Provider.Sweep] deletes all such names. A call ends with its context even if the disk
// hangs. Supported systems are Linux, macOS and FreeBSD; elsewhere Open fails.
package filelease
