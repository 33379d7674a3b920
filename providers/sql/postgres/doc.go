// Package postgreslease keeps leases in a table of PostgreSQL.
//
//	provider, err := postgreslease.Open(ctx, postgreslease.Options{Pool: pool, Create: true})
//	provider, err := postgreslease.OpenURL(ctx, "postgres://app@db/app?create=true")
//
// It makes the promises of package sqllease, with these particulars:
//
//   - The server's clock is read inside the statement, after the row was locked: not the start time of the
//     transaction, and not a client's time.
//   - A transaction is a single statement, so a client that is paused or cut off never keeps a row locked.
//   - Functions are schema-qualified, and so are operators that another
//     schema could overload for the types in use. The rest relies on pg_catalog being
//     first in the search path, which is PostgreSQL's default.
//
// # What it assumes
//
// PostgreSQL must not lose acknowledged commits. With synchronous_commit off a crash of the server
// may lose the last grants, and so may a failover to an asynchronous replica. Two holders may then
// trust the same name for up to one TTL. The later holder's token is still greater, unless the
// servers' clocks differ by more than the time between the lost grant and the next grant. Use synchronous replication where
// this matters, and make sure that nothing writes to the former primary after a failover.
//
// The server's wall clock must not make large steps. A step forward by more than the margin of
// trust (leasing.Tuning.DriftFactor) frees names early. After a step back a lease may last longer,
// at most one TTL from the first contender's request.
//
// # How it works
//
// The tables are in the schema [DefaultSchema], or in the schema that Options.Schema names. The table "lease_waiters" holds the
// waiters' identities.
//
// The acquire of a name that is free, and its release by the holder, take one statement, for one
// row or for all requests that arrived at the same time. Every other case takes two more
// statements: the row is read, the rules of package providerkit decide, and the result is written
// if the row has not changed. An acquire of a held name writes nothing. A statement for many names
// locks their rows in order of name, and skips rows that another transaction has locked. A skipped
// acquire or release is then sent alone, and a skipped renewal is reported as unknown. The pool
// reserves one connection for renewals. In a pool of one connection, requests don't wait for a
// locked row, but fail with leasing.ErrThrottled. With pgx each transaction sets READ COMMITTED if
// the database's default isolation level is stricter.
//
// A registered waiter that is refused joins the queue in the name's row; that commit does not wait
// for a sync. Release and Break notify the channel of the first waiter's process. They also send
// some of the next waiters the time at which their turn comes if all waiters before them hang. With
// pgx one connection per provider listens while there are waiters. With another driver the provider
// polls the queue, with one query for all its waiters.
//
// Deadlocks, serialization failures, too many connections, a full disk, and a server
// that is starting up or read-only are reported as leasing.ErrThrottled.
//
// PostgreSQL 12 and later are supported, with a UTF8 database. See docs/providers/postgres.md for
// permissions, poolers and performance.
package postgreslease
