package place

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing/fencing"
)

// SQL opens the database for what is not leases.
func (p Place) SQL() (*sql.DB, error) {
	if p.onPostgres() {
		return sql.Open("pgx", p.URL)
	}
	path, err := p.file()
	if err != nil {
		return nil, err
	}
	// A transaction takes the file's write lock when it begins: one that reads
	// first could not get it later if somebody has written in between.
	file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	return sql.Open("sqlite3", file.String())
}

func (p Place) file() (string, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(p.URL, "sqlite://"), "?")
	return url.PathUnescape(path)
}

// Table returns the name of a table of this run: "schema.name", or
// "scope_name" where there are no schemas. It needs no quotes.
func (p Place) Table(name string) string {
	if p.onPostgres() {
		return p.Scope + "." + name
	}
	return p.Scope + "_" + name
}

// Fence returns the description of a fencing table for this database.
func (p Place) Fence() (*fencing.Table, error) {
	style := fencing.Question
	if p.onPostgres() {
		style = fencing.Dollar
	}
	return fencing.NewTable(style, p.Table("fencing"))
}

// SQLText makes SQL for this database of text with @name for the tables of
// this run and ? for parameters.
func (p Place) SQLText(text string, tables ...string) string {
	for _, table := range tables {
		text = strings.ReplaceAll(text, "@"+table, p.Table(table))
	}
	if !p.onPostgres() {
		return text
	}
	parts := strings.Split(text, "?")
	for i := range parts[:len(parts)-1] {
		parts[i] += "$" + string(rune('1'+i)) // no statement here has ten
	}
	return strings.Join(parts, "")
}

// clear removes what the run has left on a server, or in a file of the user's.
func (p Place) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if p.OnRedis() {
		return p.clearRedis(ctx)
	}
	db, err := p.SQL()
	if err != nil {
		return err
	}
	if p.onPostgres() {
		_, err = db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.Scope+" CASCADE")
	} else {
		err = p.dropTables(ctx, db)
	}
	return errors.Join(err, db.Close())
}

// dropTables drops the tables of the run from an SQLite file.
func (p Place) dropTables(ctx context.Context, db *sql.DB) error {
	tables, err := column(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, ?) = ?", len(p.Scope), p.Scope)
	for _, table := range tables {
		_, dropped := db.ExecContext(ctx, `DROP TABLE "`+table+`"`)
		err = errors.Join(err, dropped)
	}
	return err
}

// column returns the only column of a query's rows.
func column(ctx context.Context, db *sql.DB, query string, args ...any) (values []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}
