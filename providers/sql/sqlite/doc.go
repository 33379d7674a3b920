// Package sqlitelease keeps leases in a table of an SQLite file, for the processes of one host.
//
//	provider, err := sqlitelease.Open(ctx, sqlitelease.Options{Path: "/var/lib/app/leases.db", Create: true})
//	provider, err := sqlitelease.OpenURL(ctx, "sqlite:///var/lib/app/leases.db?create=true")
//
// It makes the promises of package sqllease.
//
// # What it assumes
//
// The file must be on a local file system: SQLite's locks don't work over networks. A file with hard links is refused, since each
// of its names would have its own locks. Requests to a file that was deleted or replaced while open are also refused, even if
// only a link in its path leads to another file now. Containers must share the folder through one mount, not just the file. A
// process that is stopped in the middle of a transaction, which takes about one disk sync, blocks the others until it continues
// or is killed.
//
// On Linux a lease's expiry is stored by CLOCK_BOOTTIME, with the boot ID, as well as by the wall
// clock. Within one boot CLOCK_BOOTTIME alone decides, so stepping the wall clock has no
// effect. After a reboot, on other systems, and between time namespaces the wall clock
// decides. With [Options].Synchronous "full" a grant survives a power
// failure. With "normal" the last grants may be lost; their holders are gone too, but
// one of their tokens could be issued again if the clock stood still or went back.
//
// # How it works
//
// Times are in microseconds. The columns boot and boot_us hold the expiry by CLOCK_BOOTTIME.
//
// On Linux each process is woken after the commit through its own named pipe beside the file,
// leases.db-wake-CHANNEL. The pipe of a dead process has no reader, so its waiters lose their places
// at once. On other systems, and where a pipe can't be made, the process polls the queue. The writers
// of a process queue in order and share transactions, so a renewal waits for a few transactions at
// most. Processes compete for SQLite's lock at short, random intervals, and one that has been writing
// for a long time yields, so that no process starves.
//
// A locked file, and a process without free file descriptors, are reported as leasing.ErrThrottled. After a
// full disk the request may have been applied.
//
// SQLite 3.38 and later are supported, which matters if you pass your own database handle. See docs/providers/sqlite.md
// for permissions and performance.
package sqlitelease
