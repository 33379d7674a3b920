// Package sqlserverlease keeps leases in a table of Microsoft SQL Server or Azure SQL Database. It is experimental: we have not
// run it on a real server yet. The workflow sqlserver of this repository runs the conformance suite and torture on a real server,
// and the package is experimental until a run passes.
//
//	provider, err := sqlserverlease.Open(ctx, sqlserverlease.Options{URL: "sqlserver://app:secret@db:1433?database=app", Create: true})
//	provider, err := sqlserverlease.OpenURL(ctx, "sqlserver://app:secret@db:1433?database=app&create=true")
//
// It makes the promises of package sqllease, with these particulars:
//
//   - The server's clock decides. A request reads a row, the rules decide, and a second request writes the row on condition that its
//     version, token and ID are still the same. No decision rests on the read alone.
//   - A write is one batch with its own BEGIN and COMMIT TRANSACTION under SET XACT_ABORT ON. So a client that is paused or cut
//     off never keeps a row locked, and a batch that ends with an error from the server has changed nothing.
//   - A statement waits for a lock for 2 s at most, and then fails with leasing.ErrThrottled.
//   - There are no pushed wake-ups: while there are waiters the provider polls for all of them with one query, at
//     intervals of up to 80 ms. Waiters are still served in order. A waiter whose process has died keeps its place until
//     its turn comes, and then blocks the name for 200 ms.
//   - Names are varbinary, and are compared byte by byte, trailing spaces included. The column contains the name as
//     UTF-8.
//
// # Isolation
//
// Each batch sets READ COMMITTED, and no statement has a lock hint. The statements are correct with and
// without READ_COMMITTED_SNAPSHOT, for these reasons:
//
//   - UPDATE finds its row by the primary key and evaluates its condition under an update lock, on the current row. With
//     READ_COMMITTED_SNAPSHOT, too, UPDATE reads its row with a lock, and not from row versions ("a blocking scan where an
//     update lock is acquired on the data row"):
//     https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.
//   - INSERT of a name that another claim has inserted fails on the primary key, with error 2627.
//   - SYSUTCDATETIME may return the same time throughout a statement, from before a wait for a lock. So a write reads the clock
//     again in a statement of its own before COMMIT, with the row locked: a renewal that has waited beyond its claim's end is
//     rolled back.
//   - A read waits for a writer, or shows the latest committed row with READ_COMMITTED_SNAPSHOT. The clock is read before the row
//     and after the row, so a row that was written in between is not mistaken for a clock that went back.
//
// A write returns its result in an output parameter: an OUTPUT clause would send its rows before COMMIT. After COMMIT the
// batch runs nothing that could fail. If the answer is lost the outcome is unknown, which is leasing.ErrUnavailable.
//
// The server must not lose acknowledged commits. With DELAYED_DURABILITY = FORCED a crash may lose the last grants, and so may a
// failover to an asynchronous replica of an availability group. Two holders may then trust one name for up to a TTL. See
// docs/providers/sqlserver.md.
package sqlserverlease
