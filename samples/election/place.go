//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing/fencing"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

const postgresVariable = "LEASING_TEST_POSTGRES"

// place is where the leases and the ledger are. The workers get it as JSON.
type place struct {
	Dialect sqllease.Dialect
	DSN     string // the URL of the server, or the path of the file
	Schema  string // of PostgreSQL
}

// setUp makes a database, or a schema, for one run of the demo.
func setUp(ctx context.Context, dialect string) (place, func() error, error) {
	p := place{Dialect: sqllease.Dialect(dialect)}
	var remove func() error
	switch p.Dialect {
	case sqllease.SQLite:
		folder, err := os.MkdirTemp("", "leasing-election-")
		if err != nil {
			return p, nil, err
		}
		remove = func() error { return os.RemoveAll(folder) }
		p.DSN = filepath.Join(folder, "demo.db")
	case sqllease.Postgres:
		p.DSN = os.Getenv(postgresVariable)
		if p.DSN == "" {
			return p, nil, fmt.Errorf("set %s to the URL of a PostgreSQL server; `make demo BACKEND=postgres` starts one", postgresVariable)
		}
		p.Schema = fmt.Sprintf("leasing_demo_%d", os.Getpid())
		remove = p.dropSchema // a method value: it has the place as it is now
	default:
		return p, nil, fmt.Errorf("no such backend: %q; there are sqlite and postgres", dialect)
	}
	if err := p.create(ctx); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
}

// provider opens the leases.
func (p place) provider(ctx context.Context, migrate bool) (*sqllease.Provider, error) {
	return sqllease.Open(ctx, sqllease.Options{Dialect: p.Dialect, DSN: p.DSN, Schema: p.Schema, Migrate: migrate})
}

// open opens the database for what is not leases.
func (p place) open() (*sql.DB, error) {
	if p.Dialect == sqllease.SQLite {
		file := url.URL{Scheme: "file", OmitHost: true, Path: p.DSN, RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)"}
		return sql.Open("sqlite3", file.String())
	}
	return sql.Open("pgx", p.DSN)
}

// create makes the tables: those of the leases, the ledger, and beside it the
// table in which the ledger remembers the highest token.
func (p place) create(ctx context.Context) error {
	provider, err := p.provider(ctx, true)
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }()
	book, err := openLedger(p)
	if err != nil {
		return err
	}
	defer book.close()
	return book.create(ctx)
}

func (p place) dropSchema() error {
	db, err := p.open()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.Schema+" CASCADE")
	return err
}

func (p place) placeholders() fencing.Placeholders {
	if p.Dialect == sqllease.SQLite {
		return fencing.Question
	}
	return fencing.Dollar
}

// table returns a table's name, with its schema if there is one.
func (p place) table(name string) string {
	if p.Schema == "" {
		return name
	}
	return p.Schema + "." + name
}
