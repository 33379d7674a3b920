// Package place is where a sample keeps its leases and its data: an SQLite
// file, a PostgreSQL database or a Redis server, named by a URL.
//
// A run of a sample has a scope of its own there (a prefix of names, on
// PostgreSQL a schema), which is removed at its end. So samples may run beside
// each other, and on a server that has other things to do.
//
// Open is for programs that need leases alone, on any backend.
package place
