// Package sqllease keeps leases in a table: of PostgreSQL, or of an SQLite file; and of MariaDB and MySQL, for which
// package mysqllease of module providers/sql/mysql has the client and the particulars.
//
//	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "postgres://app@db/app", Create: true})
//	provider, err := sqllease.OpenURL(ctx, "sqlite:///var/lib/app/leases.db?create=true")
//
// # What it promises
//
// The promises of package leasing, as far as the database keeps its own:
//
//   - The database's clock alone decides when a lease has run out. It is read
//     inside the statement, after the row was locked: never the time at which a
//     transaction began, and never a client's.
//   - Each change is made whole or not at all. On PostgreSQL a transaction is a single
//     statement, so a client that is paused or cut off never keeps a row locked.
//   - Waiters are served in order, of one process and of many. Whatever frees a
//     name wakes the first alone, and reserves the name for it for 200 ms. If that one is dead
//     or hangs, it loses its place, and the next one has its turn.
//   - Changes of a process that come at the same time share a transaction and its
//     sync. Each caller has its own answer and its own context: see package batch of
//     providerkit. A lone caller waits for nobody.
//   - A lease is free to others in the microsecond after its TTL, and no sooner.
//     A claim that has run out is lost, even if nobody has taken the name since.
//   - The fencing token is max(stored + 1, the database's clock in
//     microseconds). It rises through release, expiry, Break, restarts and the
//     forgetting of names.
//   - A released or broken ID is refused from then on. Each name remembers the
//     last 8 for as long as the name is remembered ([Options].Retention), and up
//     to 64 for a minute, by 64 bits of a hash.
//   - A request waits for locks no longer than its context allows, or
//     [Options].Timeout where that has no deadline. Close waits for requests
//     under way.
//   - Names are compared byte by byte, and reach the database as parameters only.
//     Functions are named with their schema, and so are operators that another schema
//     could have for the types at hand. That relies on pg_catalog being first in the
//     search path, where PostgreSQL puts it unless it is told otherwise.
//
// # What it assumes
//
// PostgreSQL loses no commit it has acknowledged. With synchronous_commit off a
// crash of the server may lose the last grants, and a failover to an
// asynchronous replica too: two holders may then trust the same name for up to
// one TTL. The token of the later one is greater all the same, by the clock, as
// long as the servers' clocks agree better than the time that was lost. Let
// synchronous replication confirm commits where this matters, and let nothing
// write to a server that was failed over from.
//
// PostgreSQL's wall clock makes no large steps: a step forward by more than the
// margin of the holders' trust frees names early. After a step back a lease has
// at most its TTL left from when the first contender asks.
//
// An SQLite file is used by the processes of one host, on a local file system
// (its locks don't work over networks). A file with hard links is refused, since each
// of its names would have locks of its own; so are requests to a file that was
// deleted or replaced while it was open, also by a link in its path that leads to another one. Containers share the folder, by one mount,
// and not the file alone. A process that is stopped in the middle of a transaction, which
// takes about one sync of the disk, keeps the others out until it goes on or is
// killed. On Linux deadlines are kept on CLOCK_BOOTTIME beside the wall
// clock, with the ID of the boot. In the same boot that clock alone decides, and
// stepping the wall clock frees nothing early and keeps nothing late. After a
// reboot, on other systems, and between time namespaces the wall clock decides,
// as on PostgreSQL. With [Options].Synchronous "full" a grant survives a power
// failure. With "normal" the last ones may not; their holders don't either, but
// a token of theirs could come again if the clock stood still or went back.
//
// # How it works
//
// One row per name, kept after release: [Provider.Statements] has its columns.
//
// A name is held while id is not empty and expires_at is NULL or to come. While id is empty it
// is reserved for the first of waiters until expires_at. SQLite
// has the same in its types (times in microseconds), and boot and boot_us for
// the BOOTTIME deadline. Beside the table "lease" are "lease_history" and
// "lease_schema", which says the version and where sweeping goes on; on PostgreSQL
// they are in the schema "infra", with "lease_waiters", where those who wait say who
// they are. Both names are options.
//
// On PostgreSQL the acquire of a name that is free, and the release by its holder, take
// one statement, of one row or of all that came at the same time. Whatever that leaves
// undecided takes two more: the row is read, the rule of package providerkit decides, and what
// it wants is written if the row is still the same. An acquire of a name that is held writes
// nothing. Statements of many lock rows in the order of their names, and leave out
// those that another transaction has locked: an acquire or a release then goes on alone, and
// a renewal is reported as unknown. The pool keeps one connection for renewals; where there
// is only one, requests don't wait for a row that is locked, and are refused for now. Where
// transactions are serializable by default, each says through pgx that it is not.
//
// On PostgreSQL a registered waiter that is refused joins the queue in the name's row, with a commit
// that waits for no sync. Release and Break notify the channel of the first one's process, and tell
// some of the others when it will be their turn if all before them hang. Through pgx one
// connection per provider listens while somebody waits; without it one question at intervals
// asks whose turn it is.
//
// On SQLite the queue is the same. On Linux a process is woken through a pipe of its own beside the
// file, leases.db-wake-..., after the commit. The pipe of a process that has died has no reader, so its
// waiters lose their places at once. Elsewhere, and where there can be no pipe, it asks whose turn
// it is. SQLite's writers queue in the process, in order, and changes share transactions, so that
// a renewal waits for a few of these at most. Between processes each asks for the
// lock at short, random intervals, and one that has written for long lets the others
// in, so that none starves.
//
// A request that is refused for now, and certainly not applied, is
// leasing.ErrThrottled: deadlocks and serialization failures, too many
// connections, a full disk of PostgreSQL's, a server that starts up or is read-only,
// an SQLite file that is locked, a process without file descriptors. Tables that are
// missing or not ours are leasing.ErrNotSetUp, a missing right is leasing.ErrDenied.
// Whatever else goes wrong on the way is leasing.ErrUnavailable, and may have been
// applied; so may a change on a full disk of SQLite's.
//
// # Setting up
//
// [Provider.Migrate] creates the tables or brings them up to date, one process
// at a time. It needs the right to create; a role that lacks it gets a
// [SetupError] with the statements to run. Any use of tables of another version is
// refused as leasing.ErrNotSetUp: an open provider notices within 10 seconds that
// newer code has migrated them. Tables of another application are left alone.
//
// It is written for PostgreSQL 12 and later, with a database in UTF8, and SQLite 3.38
// and later. Rights, poolers and figures are in docs/providers/postgres.md and
// docs/providers/sqlite.md.
package sqllease
