// Package pgkit is shared by package postgreslease and package sqlsequence, which use PostgreSQL through pgx. Applications do
// not need it, and its API may change with every release.
//
// [Verdict] judges an error from the client. [DropPool] and [DropDB] close the idle connections of a pool, even of the
// application's pool, since all of them lead to the same server. [AcquireChecked] and [ConnChecked] check a connection that
// was idle for longer than [sqlkit.Idle]. [Session] checks the settings of a session, which an application may have changed.
//
// [ListenAs] and [ListenLike] connect outside a pool to listen. [Sticks] checks whether a connection
// that listens keeps its server process. Behind PgBouncer in transaction mode it does not: no
// message arrives, and LISTEN stays on a process that serves other clients.
package pgkit
