// Package mysqllease keeps leases in a table of MariaDB or MySQL.
//
//	provider, err := mysqllease.Open(ctx, mysqllease.Options{URL: "mysql://app:secret@db:3306/app", Create: true})
//	provider, err := mysqllease.OpenURL(ctx, "mariadb://app:secret@db:3306/app?tls=true&create=true")
//
// It makes the promises of package sqllease, with these particulars:
//
//   - The server's clock decides, in sessions that are set to UTC. Each change is one statement, or one transaction that
//     is sent as a whole, on condition that the row has not changed since it was read. So a client that is paused or cut
//     off never keeps a row locked.
//   - A statement waits for a lock for 2 s at most, and then fails with leasing.ErrThrottled. A statement whose caller has given
//     up continues on the server for up to that time; if it grants a lease, the manager releases the lease by the claim's ID.
//   - There are no pushed wake-ups: while there are waiters the provider polls for all of them with one query, at
//     intervals of up to 80 ms. Waiters are still served in order. A waiter whose process has died keeps its place until
//     its turn comes, and then blocks the name for 200 ms.
//   - The tables are in the URL's database and use the engine InnoDB. Names are compared byte by byte, trailing spaces
//     included.
//
// The server must not lose acknowledged commits. With innodb_flush_log_at_trx_commit other than 1 a crash of the host may lose the last
// grants, and so may a failover with asynchronous replication. Two holders then trust one name for up to a TTL.
//
// It is tested on MariaDB 10.11. The statements use only features that MySQL 8 also has, but have not been run on MySQL.
// Galera clusters and proxies that send reads to replicas are not supported. See docs/providers/mariadb.md.
package mysqllease
