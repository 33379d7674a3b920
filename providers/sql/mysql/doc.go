// Package mysqllease keeps leases in a table of MariaDB or MySQL: it opens package sqllease with a client of theirs, in a module
// of its own, so that those who use PostgreSQL or SQLite do not require it.
//
//	provider, err := mysqllease.Open(ctx, mysqllease.Options{URL: "mysql://app:secret@db:3306/app", Create: true})
//	provider, err := mysqllease.OpenURL(ctx, "mariadb://app:secret@db:3306/app?tls=true&create=true")
//
// The promises are those of package sqllease. What is particular to these databases:
//
//   - The server's clock decides, in sessions that are set to UTC. Each change is one statement, or one transaction that
//     is sent as a whole, under the condition that the row is still as it was read: a client that is paused
//     or cut off never keeps a row locked.
//   - A statement waits for a lock for 2 s at most, and is refused then, as leasing.ErrThrottled. One whose caller has left goes on
//     until then on the server; what comes of it is known by its claim's ID, which the manager releases.
//   - Nothing can wake a waiter: one question every 80 ms or less asks for all waiters of the provider whose turn it is.
//     They are served in order all the same. One whose process has died keeps its place until it was its turn, for 200 ms.
//   - The tables are in the URL's database, of engine InnoDB. Names are compared byte by byte, trailing spaces included.
//
// A commit that the server has acknowledged must not be lost: with innodb_flush_log_at_trx_commit other than 1 a crash of the host, and with
// asynchronous replication a failover, may lose the last grants, and two holders then trust one name for up to a TTL.
//
// It is tested on MariaDB 10.11. The statements are such as MySQL 8 has too, and have not run there. Galera clusters and
// proxies that send reads to replicas are not supported. See docs/providers/mariadb.md.
package mysqllease
