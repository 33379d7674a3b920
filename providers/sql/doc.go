// Package sqllease is the common part of the providers over SQL databases: their type [Provider], [SetupError] and [Times].
// It opens no database: applications use the package for their database. Each of these is in a module that links only that
// database's client:
//
//   - package postgreslease of module providers/sql/postgres;
//   - package sqlitelease of module providers/sql/sqlite;
//   - package mysqllease of module providers/sql/mysql, for MariaDB and MySQL;
//   - package sqlserverlease of module providers/sql/sqlserver, which is experimental.
//
// # What it promises
//
// The providers keep the promises of package leasing as long as the database loses no
// acknowledged commit:
//
//   - The database's clock alone decides when a lease has run out. On SQLite this is the host's clock.
//   - Each change is atomic.
//   - Waiters are served in order, within a process and across processes. When a name becomes
//     free only the first waiter is woken, and the name is reserved for it for 200 ms. A
//     waiter that is dead or hangs loses its place to the next waiter.
//   - Concurrent changes by one process may share a transaction and its sync. Each
//     caller still has its own answer and its own context: see package
//     providerkit/batch. A single caller is not delayed.
//   - Other claims can acquire a name one microsecond after the lease's TTL, and no
//     sooner. A claim that has run out is lost, even if no other claim has acquired the
//     name.
//   - The fencing token is max(stored + 1, the database's clock in microseconds). It
//     rises across releases, expiries, breaks, restarts and deletions of names.
//   - A released or broken ID is refused from then on. Each name remembers the
//     last 8 such IDs for as long as the name itself is remembered
//     (the option Retention), and up to 64 for a minute, as 64-bit hashes.
//   - A request waits for locks until its context's deadline, or, without a deadline,
//     for the option Timeout. Close waits for requests in flight.
//   - Names are compared byte by byte, and are passed to the database only as
//     parameters.
//
// # How it works
//
// The table "lease" has one row per name, which is kept after release: [Provider.Statements] shows its
// columns. The table "lease_history" has the history, and "lease_version" has the version of the
// tables and the position of the sweep. The option Table replaces "lease" in these names.
//
// The first sweep that deletes a name makes the row of the empty name, which belongs to no lease. Its token is
// the highest token deleted so far, and the tokens of new names begin above this token. So tokens rise even if
// the database's clock was ahead for a while.
//
// A name is held while its id is not empty and its expiry is in the future, or infinite. If the id is
// empty, the name is reserved until that time for the first entry of the column waiters.
//
// A temporary failure is reported as leasing.ErrThrottled if the request was certainly
// not applied. Tables that are missing or belong to another application are reported as
// leasing.ErrNotSetUp, and a missing permission as leasing.ErrDenied. After any other
// failure the error is leasing.ErrUnavailable and the request may have been applied.
//
// # Setting up
//
// [Provider.Migrate] creates the tables, or brings those of an earlier release up to date, one process at a time. It needs
// permission to create tables; a role without it gets a [SetupError] with the statements to run. A provider refuses tables of
// another version with leasing.ErrNotSetUp, within 10 seconds. Tables of another application are left unchanged.
package sqllease
