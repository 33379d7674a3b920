// Package place opens the leases and the data of a run of a scenario.
//
// The leases are on the backend that a URL names. If that is PostgreSQL, the data is in the same database. Otherwise the data is
// in a temporary SQLite file, which is beside the leases if they are in an SQLite file.
//
// A run has a scope of its own (a prefix of names; on PostgreSQL a schema), which is removed at the end of the run. Runs may
// share a server with each other and with applications.
package place
