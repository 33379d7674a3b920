package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// Rows that carry the token of their last writer need no separate table.
func ExampleNewGuard() {
	guard, err := sqlfence.NewGuard(sqlfence.Dollar, "fencing_token", 3, 34)
	if err != nil {
		panic(err)
	}
	fmt.Println("UPDATE reports SET body = $2, " + guard.Set + " WHERE id = $1 AND " + guard.Where)
	// Output:
	// UPDATE reports SET body = $2, fencing_token = $3 WHERE id = $1 AND COALESCE(fencing_token, 0) <= $3
}

// Do runs work that writes to a SQL database under a lease.
func ExampleTable_Do() {
	table, err := sqlfence.NewTable(sqlfence.Dollar, "leasing.fencing")
	if err != nil {
		panic(err)
	}
	closeDay := func(ctx context.Context, db *sql.DB, lease *leasing.Lease) error {
		return table.Do(ctx, db, "ledger", lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE ledger SET open = false WHERE day = current_date")
			return err
		})
	}
	_ = closeDay // call it inside leasing.Do, with the context and the lease that Do passes to the function
}
