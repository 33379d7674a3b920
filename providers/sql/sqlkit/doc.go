// Package sqlkit is shared by the packages of this repository that use SQL databases: the
// providers of module providers/sql, and package sqlsequence. Applications do not need it, and
// its API may change with every release.
//
// # Errors
//
// Each driver has one table of errors: [Postgres], [MySQL] and [SQLite]. A [Verdict] says three
// things of an error.
//
//   - Meaning.Class and Meaning.Advice are what the caller is told.
//   - The class also says whether the request was applied. A class other than
//     [providerkit.Unknown] proves that the database applied nothing.
//   - Close says that the connection is of no use, although it may be alive: the server is
//     read-only, shuts down, or forgets prepared statements. A pool would keep such a
//     connection for an hour. [DropPool] and [DropDB] close the idle connections of a pool, also of
//     an application's own: they lead to the same server.
//
// Codes decide, and texts only where a server has one code for two things (1290).
//
// # Connections
//
// A path may be lost without a word: a gateway forgets a connection that was idle. So a connection
// that was idle for longer than [Idle] is checked before its use. The check ends after
// [CheckTime], a tenth of the request's time. Within its bound the request then
// has room for another connection. A busy connection is never checked.
//
// # Sessions
//
// [MySQLSessions] sets up and checks sessions of MariaDB and MySQL. [PostgresSession] checks the
// settings of PostgreSQL's, which applications may have made.
//
// # Wake-ups
//
// [ListenAs] and [ListenLike] connect outside a pool to listen. [Sticks] finds out whether a
// connection that listens keeps its server process: behind PgBouncer in transaction mode it does not,
// no message arrives, and LISTEN stays on a process that serves other clients.
package sqlkit
