// Package place is where a run of a sample keeps its leases and its data.
//
// The leases are on the backend that a URL names. The data is in an SQL
// database: on PostgreSQL the same one, else a temporary SQLite file, which is
// beside the leases if they are in one.
//
// A run has a scope of its own (a prefix of names; on PostgreSQL a schema), which
// is removed at its end. Runs may share a server with each other and with
// applications.
//
// Open is for programs that need leases alone.
package place
