package journal

import (
	"context"
	"database/sql"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// sqlJournal is a table, and beside it the one with the tokens.
type sqlJournal struct {
	db                        *sql.DB
	fence                     *fencing.Table
	create, insert, has, list string
}

func openSQL(p place.Place) (*sqlJournal, error) {
	fence, err := p.Fence()
	if err != nil {
		return nil, err
	}
	db, err := p.SQL()
	if err != nil {
		return nil, err
	}
	text := func(query string) string { return p.SQLText(query, "journal") }
	return &sqlJournal{
		db: db, fence: fence,
		create: text("CREATE TABLE @journal (done text PRIMARY KEY, writer text NOT NULL)"),
		insert: text("INSERT INTO @journal (done, writer) VALUES (?, ?) ON CONFLICT (done) DO NOTHING"),
		has:    text("SELECT COUNT(*) FROM @journal WHERE done = ?"),
		list:   text("SELECT done, writer FROM @journal"),
	}, nil
}

func (j *sqlJournal) Close() { _ = j.db.Close() }

func (j *sqlJournal) Create(ctx context.Context) error {
	for _, statement := range []string{j.fence.CreateSQL(), j.create} {
		if _, err := j.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (j *sqlJournal) Note(ctx context.Context, resource string, token int64, done, by string) (first bool, err error) {
	err = j.fence.Do(ctx, j.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, j.insert, done, by)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		first = rows == 1
		return err
	})
	return first && err == nil, err
}

func (j *sqlJournal) Has(ctx context.Context, resource string, token int64, done string) (bool, error) {
	count := 0
	err := j.fence.Do(ctx, j.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, j.has, done).Scan(&count)
	})
	return count == 1, err
}

func (j *sqlJournal) All(ctx context.Context) (map[string]string, error) {
	rows, err := j.db.QueryContext(ctx, j.list)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all := map[string]string{}
	for rows.Next() {
		var done, by string
		if err := rows.Scan(&done, &by); err != nil {
			return nil, err
		}
		all[done] = by
	}
	return all, rows.Err()
}
