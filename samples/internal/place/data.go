package place

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// Data is the database of a run: the resource that its leases protect. In its
// SQL @name is a table of the run; parameters are $1, $2 and so on, which SQLite
// understands too.
type Data struct {
	db    *sql.DB
	fence *sqlfence.Table
	place Place
}

// Open opens the database. It sends nothing.
func (p Place) Open() (*Data, error) {
	style, driver, dsn := sqlfence.Dollar, "pgx", p.Data
	if !p.postgres() {
		path, _, _ := strings.Cut(strings.TrimPrefix(p.Data, "sqlite://"), "?")
		path, err := url.PathUnescape(path)
		if err != nil {
			return nil, err
		}
		// A transaction takes the file's write lock when it begins: one that reads
		// first could not get it later if somebody has written in between.
		file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
		style, driver, dsn = sqlfence.Question, "sqlite3", file.String()
	}
	fence, err := sqlfence.NewTable(style, p.Table("fencing"))
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	return &Data{db: db, fence: fence, place: p}, nil
}

// Close closes the database.
func (d *Data) Close() error { return d.db.Close() }

// Create makes the table of the fence, and runs statements.
func (d *Data) Create(ctx context.Context, statements ...string) error {
	for _, statement := range append([]string{d.fence.CreateSQL()}, statements...) {
		if _, err := d.db.ExecContext(ctx, d.text(statement)); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a statement without a check.
func (d *Data) Exec(ctx context.Context, statement string) error {
	_, err := d.db.ExecContext(ctx, d.text(statement))
	return err
}

// Tx is a transaction of Do.
type Tx struct {
	*sql.Tx
	data *Data
}

// Do runs a function in a transaction that begins with the fence: it is refused,
// with an error that matches leasing.ErrStale, if a larger token was shown for the
// resource before. This is what an application does too.
func (d *Data) Do(ctx context.Context, resource string, token int64, do func(ctx context.Context, tx Tx) error) error {
	return d.fence.Do(ctx, d.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		return do(ctx, Tx{tx, d})
	})
}

// Exec runs a statement and returns how many rows it has changed.
func (t Tx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.ExecContext(ctx, t.data.text(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Scan reads the only value of a query's row.
func (t Tx) Scan(ctx context.Context, into any, query string, args ...any) error {
	return t.QueryRowContext(ctx, t.data.text(query), args...).Scan(into)
}

// Each passes the rows of a query on. row scans them.
func (d *Data) Each(ctx context.Context, query string, row func(scan func(...any) error) error) error {
	rows, err := d.db.QueryContext(ctx, d.text(query))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Table returns the name of a table of this run: "schema.name", or
// "scope_name" where there are no schemas. It needs no quotes.
func (p Place) Table(name string) string {
	if p.postgres() {
		return p.Scope + "." + name
	}
	return p.Scope + "_" + name
}

var tableName = regexp.MustCompile(`@\w+`)

func (d *Data) text(query string) string {
	return tableName.ReplaceAllStringFunc(query, func(name string) string { return d.place.Table(name[1:]) })
}

// drop removes what the run has left on a server, or in a file of the user's.
func (p Place) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, err := p.Open()
	if err != nil {
		return err
	}
	if p.postgres() {
		return errors.Join(d.Exec(ctx, "DROP SCHEMA IF EXISTS "+p.Scope+" CASCADE"), d.Close())
	}
	var drops []string
	err = d.Each(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND instr(name, '"+p.Scope+"') = 1", func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		drops = append(drops, `DROP TABLE "`+name+`"`)
		return err
	})
	for _, statement := range drops {
		err = errors.Join(err, d.Exec(ctx, statement))
	}
	return errors.Join(err, d.Close())
}
