package place

import (
	"context"
	"database/sql"
)

// Journal records actions, each of them once, and refuses writers whose token is
// stale. It is an example of a protected resource.
type Journal struct{ *Data }

// Create makes the tables.
func (j Journal) Create(ctx context.Context) error {
	return j.Data.Create(ctx, "CREATE TABLE journal (done text PRIMARY KEY, writer text NOT NULL)")
}

// Note records that an action was done, and its writer, and reports whether the
// action was not recorded before.
func (j Journal) Note(ctx context.Context, resource string, token int64, done, by string) (first bool, err error) {
	err = j.Do(ctx, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "INSERT INTO journal (done, writer) VALUES ($1, $2) ON CONFLICT (done) DO NOTHING", done, by)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		first = rows == 1
		return err
	})
	return first && err == nil, err
}

// Has reports whether an action is recorded, and shows the fence the token: if it is
// not recorded, no holder of a smaller token can record it any more.
func (j Journal) Has(ctx context.Context, resource string, token int64, done string) (bool, error) {
	count := 0
	err := j.Do(ctx, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM journal WHERE done = $1", done).Scan(&count)
	})
	return count == 1, err
}

// All returns the recorded actions with their writers.
func (j Journal) All(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	return all, Each(ctx, j.DB, "SELECT done, writer FROM journal", func(row *sql.Rows) error {
		var done, by string
		err := row.Scan(&done, &by)
		all[done] = by
		return err
	})
}
