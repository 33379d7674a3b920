// Package sqllease keeps leases in a table of PostgreSQL, or of an SQLite file. For MariaDB and MySQL use package
// mysqllease of module providers/sql/mysql, which brings the client and describes the differences.
//
//	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "postgres://app@db/app", Create: true})
//	provider, err := sqllease.OpenURL(ctx, "sqlite:///var/lib/app/leases.db?create=true")
//
// # What it promises
//
// The promises of package leasing, as long as the database loses no acknowledged commit
// (see below):
//
//   - The database's clock alone decides when a lease has run out. It is read
//     inside the statement, after the row was locked: not the start time of the
//     transaction, and not a client's time.
//   - Each change is atomic. On PostgreSQL a transaction is a single statement, so a
//     client that is paused or cut off never keeps a row locked.
//   - Waiters are served in order, within a process and across processes. When a name becomes
//     free only the first waiter is woken, and the name is reserved for it for 200 ms. A
//     waiter that is dead or hangs loses its place to the next one.
//   - Concurrent changes of a process share a transaction and its sync. Each caller
//     still has its own answer and its own context: see package providerkit/batch. A
//     single caller is not delayed.
//   - Others can take a name one microsecond after the lease's TTL, and no
//     sooner. A claim that has run out is lost, even if nobody has taken the
//     name since.
//   - The fencing token is max(stored + 1, the database's clock in
//     microseconds). It rises through release, expiry, Break, restarts and the
//     forgetting of names.
//   - A released or broken ID is refused from then on. Each name remembers the
//     last 8 such IDs for as long as the name itself is remembered
//     ([Options].Retention), and up to 64 for a minute, as 64-bit hashes.
//   - A request waits for locks until its context's deadline, or for
//     [Options].Timeout if there is none. Close waits for requests in flight.
//   - Names are compared byte by byte, and are passed to the database only as
//     parameters. Functions are schema-qualified, and so are operators that another
//     schema could overload for the types in use. The rest relies on pg_catalog being
//     first in the search path, which is PostgreSQL's default.
//
// # What it assumes
//
// PostgreSQL loses no commit it has acknowledged. With synchronous_commit off a
// crash of the server may lose the last grants, and so may a failover to an
// asynchronous replica. Two holders may then trust the same name for up to one
// TTL. The later one's token is still greater, unless the servers' clocks
// differ by more than the time that was lost. Use synchronous replication where
// this matters, and make sure that nothing writes to the former primary after a
// failover.
//
// PostgreSQL's wall clock makes no large steps. A step forward by more than the
// margin of trust (leasing.Tuning.DriftFactor) frees names early. After a step
// back a lease may last longer, at most one TTL from when the first contender
// asks.
//
// An SQLite file is used by the processes of one host, on a local file system
// (its locks don't work over networks). A file with hard links is refused, since each of
// its names would have its own locks. Requests to a file that was deleted or replaced
// while open are refused, too, also if a link in its path leads to another file now.
// Containers must share the folder through one mount, not just the file. A process that is stopped in the middle of a transaction, which takes
// about one disk sync, blocks the others until it continues or is killed. On Linux a
// lease's expiry is stored by CLOCK_BOOTTIME, with the boot ID, as well as by the wall
// clock. Within one boot CLOCK_BOOTTIME alone decides, so stepping the wall clock has no
// effect. After a reboot, on other systems, and between time namespaces the wall clock
// decides, as on PostgreSQL. With [Options].Synchronous "full" a grant survives a power
// failure. With "normal" the last grants may be lost; their holders are gone too, but
// one of their tokens could be issued again if the clock stood still or went back.
//
// # How it works
//
// The table has one row per name, which is kept after release: [Provider.Statements]
// shows its columns.
//
// The row of the empty name, which no lease has, is made by the first sweep that deletes a name.
// Its token is the highest deleted one, and tokens of new names are above its token. So they rise
// also if the database's clock was ahead for a while.
//
// A name is held while id is not empty and expires_at is NULL or in the future. If id is
// empty, the name is reserved until expires_at for the first entry of the column waiters.
// SQLite uses the same columns in its own types (times in microseconds), and boot and boot_us
// for the expiry by CLOCK_BOOTTIME. Beside the table "lease" there are "lease_history" and
// "lease_schema", which holds the schema version and the position of the sweep. On PostgreSQL
// the tables are in the schema "infra", together with "lease_waiters", which holds the
// waiters' identities. The names of schema and table are options.
//
// On PostgreSQL the acquire of a name that is free, and the release by its holder, take
// one statement, of one row or of all that came at the same time. Every other case takes two
// more statements: the row is read, the rules of package providerkit decide, and the result is
// written if the row has not changed. An acquire of a held name writes nothing. A statement
// for many names locks their rows in order of name, and skips rows that another transaction
// has locked. A skipped acquire or release is then sent alone, and a skipped renewal is
// reported as unknown. The pool reserves one connection for renewals. If it has only one
// connection, requests don't wait for a locked row, but fail with leasing.ErrThrottled. If the
// database defaults to serializable transactions, each transaction overrides that through pgx.
//
// On PostgreSQL a registered waiter that is refused joins the queue in the name's row; that commit
// does not wait for a sync. Release and Break notify the channel of the first waiter's process, and
// tell some of the next waiters when their turn comes if all before them hang. With pgx one
// connection per provider listens while there are waiters. Without it the provider polls the queue,
// with one query for all its waiters.
//
// On SQLite the queue is the same. On Linux each process is woken after the commit through its own
// named pipe beside the file, leases.db-wake-... The pipe of a dead process has no reader, so its
// waiters lose their places at once. On other systems, and where a pipe can't be made, the process
// polls the queue. The writers of a process queue in order and share transactions, so a renewal waits
// for a few transactions at most. Processes compete for SQLite's lock at short, random intervals, and
// one that has been writing for long yields, so that none starves.
//
// Temporary failures after which the request was certainly not applied are
// leasing.ErrThrottled: deadlocks, serialization failures, too many connections, a
// full disk on PostgreSQL, a server that is starting up or read-only, a locked
// SQLite file, a process without free file descriptors. Tables that are missing or
// belong to another application are leasing.ErrNotSetUp, and a missing permission is
// leasing.ErrDenied. After any other failure, a full disk on SQLite included, the
// error is leasing.ErrUnavailable and the request may have been applied.
//
// # Setting up
//
// [Provider.Migrate] creates the tables, one process at a time, and changes none that
// exist. It needs permission to create tables; a role without it gets a
// [SetupError] with the statements to run. A provider refuses tables of another
// version with leasing.ErrNotSetUp, within 10 seconds. Tables of another application are left unchanged.
//
// Supported are PostgreSQL 12 and later, with a UTF8 database, and SQLite 3.38 and
// later. Permissions, poolers and performance are in docs/providers/postgres.md and
// docs/providers/sqlite.md.
package sqllease
