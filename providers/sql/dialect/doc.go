// Package dialect is for the dialects of module providers/sql, not for applications. Its API may change with every release.
//
// A dialect implements [Backend], and passes it to sqllease.New with a [Store]. [NewTables] reads the dialect's statements from
// files "*.sql", in which {{name}} is a hole. [Wakeups] keeps the waiting claims. SQLite, MySQL and SQL Server share [RowStore],
// which applies the rules to a [Row] in this process. [ServerStore] adds the conditional writes of MySQL and SQL Server. PostgreSQL
// decides within its statements. Package dialecttest has the tests that all dialects share, and package sqlkit the verdicts on
// errors.
package dialect
