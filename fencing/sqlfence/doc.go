// Package sqlfence checks fencing tokens in a SQL database, in the transaction of
// the write. See package fencing for the reason.
//
//	fence, err := sqlfence.NewTable(sqlfence.Dollar, "fencing")
//	err = fence.Do(ctx, db, "reports", lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE reports SET ...")
//		return err
//	})
//
// [Table] keeps the highest token of each resource in a separate table, which the
// statement of [Table.CreateSQL] creates. [Guard] is for tables whose rows have a
// token column. Both work with any database/sql driver for PostgreSQL or SQLite.
//
// Read inside [Table.Do], or call [Table.Advance] in a transaction of its own when
// the lease begins: values read before that may still change.
package sqlfence
