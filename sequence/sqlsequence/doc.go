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
// The promises of package sequence, as long as the database loses no acknowledged commit. If it
// does (synchronous_commit off, a failover to an asynchronous replica, or a power failure with
// SQLite's synchronous "normal"), the latest numbers and all that was committed under them are
// lost, and those numbers may be issued again.
//
// Times are the database's, read inside the statement. On PostgreSQL that is clock_timestamp(). On
// SQLite it is the host's clock in milliseconds, so a file belongs to the processes of one host.
// A step of the clock can make a lease run out early or late. It can't change the order or admit a
// late commit, since state and token decide these.
//
// # How it works
//
// The tables are in the schema "infra" (on PostgreSQL), and their names begin with
// "sequence_":
//
//	sequence_stream   a row for each stream: its counter, seal, and end of recovery mode
//	sequence_entry    a row for each number, with times in microseconds since 1970
//	sequence_manual   the manual queue
//	sequence_schema   the version of the tables
//	sequence_event    the audit, with Options.Audit, which triggers write
//
// The partial indexes hold open numbers, gaps, and numbers whose hooks are due. So finding the
// watermark, claiming and sealing cost the same, however many numbers are closed.
//
// Issuing a number is one statement, so on PostgreSQL the counter's row is locked only while the server
// commits, and not for a round trip. Concurrent leases of a process share a statement. A commit locks its own
// entry only, and a claim waits for it before it locks the counter. A commit that leases the next number takes
// the counter last, and only if it is free. A recovery and a fill hold the counter while the caller's own write
// runs: keep that short. A process that is stopped within its transaction keeps its number until the server
// ends the connection: see idle_in_transaction_session_timeout.
//
// On SQLite the writers of a process take turns. Single statements that wait for theirs, like those of a lease, join the transaction of
// the writer whose turn it is, after its last statement, and share its outcome.
//
// On PostgreSQL through pgx every closing notifies, on a channel of the tables, after it was
// committed. Closings that come at the same time share a notification. One connection per store listens
// once somebody waits. On SQLite wake-ups work within a process; other processes poll, at least once a
// second.
//
// # Rights
//
// Migrate needs permission to create tables. A role without it gets a [SetupError] with the
// statements to run. At run time SELECT, INSERT, UPDATE and DELETE on the tables are enough.
//
// It is written for PostgreSQL 12 and later, and SQLite 3.38 and later. On PostgreSQL connections are in UTF8: others are
// refused with leasing.ErrNotSetUp. Where pgx prepares no statements (QueryExecModeExec and QueryExecModeSimpleProtocol) they need
// PostgreSQL's default of bytea_output, "hex". With "escape" no entry can be read there: requests fail with leasing.ErrUnavailable.
package sqlsequence
