// Package sqlkit is shared by the packages of this repository that use SQL databases: the dialects
// of module providers/sql, and package sqlsequence. Applications do not need it, and its API may
// change with every release. It does not link a database client.
//
// # Errors
//
// Each database has one table of error codes: [SQLite], [PostgreSQL], [MySQL] and [SQLServer]. The packages that link a client
// read the code from its errors. A [Verdict] says, among other things:
//
//   - Meaning.Class and Meaning.Advice are for the caller.
//   - The class also says whether the request was applied. A class other than
//     [providerkit.Unknown] proves that the database applied nothing.
//   - Close says that the connection is of no use, although it may be alive: the server is
//     read-only, shuts down, or forgets prepared statements. A pool would keep such a
//     connection for an hour.
//
// The code decides. The error's text matters only where a server has one code for several errors
// (1290).
//
// # Connections
//
// A connection may be lost without notice, as when a gateway forgets one that was idle. So a
// connection that was idle for longer than [Idle] is checked before its use. The check ends after
// [CheckTime], a tenth of the request's time, so that the request still has time to use another
// connection. A busy connection is never checked.
package sqlkit
