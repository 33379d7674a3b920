// Package place opens the leases and the data of a run of a scenario.
//
// The leases are on the backend that a URL names. The data is in an SQL
// database: on PostgreSQL the same database, else a temporary SQLite file, which is
// beside the leases if these are in an SQLite file.
//
// A run has a scope of its own (a prefix of names; on PostgreSQL a schema), which
// is removed at its end. Runs may share a server with each other and with
// applications.
package place
