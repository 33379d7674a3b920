// Package sqlsequence keeps the streams of package sequence in tables of PostgreSQL or SQLite,
// over a database that the application has opened. The application's own writes join the
// transactions.
//
//	store, err := sqlsequence.OpenPostgres(db, sqlsequence.Options{}) // *sql.DB through pgx: Tx is *sql.Tx
//	store, err := sqlsequence.OpenPool(pool, sqlsequence.Options{})   // *pgxpool.Pool: Tx is pgx.Tx
//	store, err := sqlsequence.OpenSQLite(db, sqlsequence.Options{})   // *sql.DB: Tx is *sql.Tx
//
//	err = store.Migrate(ctx)
//	err = store.CreateStream(ctx, "ledger")
//
// # What it promises
//
// It keeps the promises of package sequence, as long as the database never loses an acknowledged commit. If it loses one
// (synchronous_commit off, a failover to an asynchronous replica, or a power failure with SQLite's synchronous "normal"), the
// latest numbers and all that was committed under them are lost, and those numbers may be issued a second time. Restoring a
// backup loses numbers in the same way: first stop all writers and cleaners, then restore, call Store.NewEpoch for each stream,
// and restart the writers and cleaners. Readers of the earlier epoch then get a sequence.CheckpointError.
//
// All times come from the database's clock, read inside the statement. On PostgreSQL that is clock_timestamp(). On SQLite
// it is the host's clock in milliseconds, so a file belongs to the processes of one host. A step of the clock can make a
// lease run out early or late. It can't change the order or admit a late commit, since state and token decide these. When
// the clock goes back, the next claim moves each end that was set while the clock was ahead: the lease then lasts for its
// whole duration from that claim on. Store.Expire ends the lease at once.
//
// # How it works
//
// The tables are in the schema "leasing" (on PostgreSQL), and their names begin with
// "sequence_":
//
//	sequence_stream   a row for each stream: its counter, seal, and end of recovery mode
//	sequence_entry    a row for each number, with times in microseconds since 1970
//	sequence_manual   the manual queue
//	sequence_version  the version of the tables
//	sequence_event    the audit, written by triggers, with Options.Audit
//
// The partial indexes hold open numbers, gaps, and numbers whose hooks are due. So finding the
// watermark, claiming and sealing cost the same, however many numbers are closed.
//
// Issuing a number is one statement, so on PostgreSQL the counter's row is locked only while the server
// commits, and not for a round trip. Concurrent leases of a process share a statement. A commit locks its own
// entry only, and a claim waits for that lock before it locks the counter. A commit that leases the next number
// locks the counter last, and only if no other transaction holds that lock. A recovery and a fill hold the counter while the
// caller's own write runs, so keep the write short.
//
// A caller's write has the time that its lease or claim has left, but at least three seconds; a fill has ten seconds.
// After that time the context of the write ends, and nothing is committed. On PostgreSQL the server enforces the same
// limit if the process is paused or cut off: the statement that locks the rows sets idle_in_transaction_session_timeout,
// statement_timeout, tcp_user_timeout (on Linux), and transaction_timeout (from version 17), for its transaction alone.
// Before version 17 these limits count from the last statement, so that a process that is paused late in its write stops
// the stream for up to twice the lease. Other transactions may be idle for two seconds between two statements.
//
// On SQLite a process that is stopped (SIGSTOP, a frozen container) within its transaction keeps the lock of the file until the
// process continues or ends: the lock is the operating system's, and no other process can break the lock. Requests of other
// processes then fail with leasing.ErrThrottled after their busy timeout. Keep writes short, and kill a process instead of
// stopping it with a signal. The kernel frees the lock of a process that has ended.
//
// On SQLite the writers of a process take turns. Waiting single statements, like those of a lease, join the transaction of the writer
// whose turn it is, after its last statement, and share its outcome.
//
// On PostgreSQL through pgx the store sends a notification after each commit that closes a number, on a channel for these tables.
// Numbers that close at the same time share a notification. One connection per store listens from the first wait on. On SQLite
// wake-ups work within a process; other processes poll, at least once a second.
//
// # Rights
//
// Migrate needs permission to create tables. A role without that permission gets a [SetupError]
// with the statements to run. At run time SELECT, INSERT, UPDATE and DELETE on the tables are
// enough.
//
// The package is written for PostgreSQL 12 and later, and SQLite 3.38 and later. On PostgreSQL connections must use UTF8: others
// are refused with leasing.ErrNotSetUp. If pgx prepares no statements (QueryExecModeExec and QueryExecModeSimpleProtocol), they
// also need PostgreSQL's default of bytea_output, "hex". With "escape" entries can't be read, and requests fail with
// leasing.ErrUnavailable.
package sqlsequence
