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

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// variables name the servers: of backends that have one.
var variables = map[string]string{
	"postgres": "LEASING_TEST_POSTGRES",
	"redis":    "LEASING_TEST_REDIS",
	"redlock":  "LEASING_TEST_REDLOCK",
}

// place is where the leases and the ledger are. The workers get it as JSON.
type place struct {
	Dialect sqllease.Dialect // of the ledger's database
	DSN     string           // the URL of its server, or the path of its file
	Schema  string           // of PostgreSQL
	Redis   string           // the URL of the leases, if they are not beside the ledger
	Prefix  string           // of their keys
}

// setUp makes a database, or a schema, for one run of the demo.
func setUp(ctx context.Context, backend string) (place, func() error, error) {
	server, err := serverOf(backend)
	if err != nil {
		return place{}, nil, err
	}
	var p place
	var remove func() error
	if backend == "postgres" {
		p = place{Dialect: sqllease.Postgres, DSN: server, Schema: fmt.Sprintf("leasing_demo_%d", os.Getpid())}
		remove = p.dropSchema // a method value: it has the place as it is now
	} else {
		folder, err := os.MkdirTemp("", "leasing-election-")
		if err != nil {
			return p, nil, err
		}
		remove = func() error { return os.RemoveAll(folder) }
		p = place{Dialect: sqllease.SQLite, DSN: filepath.Join(folder, "demo.db"), Redis: server, Prefix: fmt.Sprintf("leasing-demo-%d", os.Getpid())}
	}
	if err := p.create(ctx); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
}

// serverOf returns the URL of a backend's server, "" if it has none.
func serverOf(backend string) (string, error) {
	if backend == "sqlite" {
		return "", nil
	}
	variable, known := variables[backend]
	if !known {
		return "", fmt.Errorf("no such backend: %q; there are sqlite, postgres, redis and redlock", backend)
	}
	server := os.Getenv(variable)
	if server == "" {
		return "", fmt.Errorf("set %s to the URL of a server; `make demo BACKEND=%s` starts one", variable, backend)
	}
	return server, nil
}

// provider opens the leases.
func (p place) provider(ctx context.Context, migrate bool) (leasing.Provider, error) {
	if p.Redis != "" {
		return redislease.Open(ctx, redislease.Options{URL: p.Redis, Prefix: p.Prefix, Retention: time.Minute})
	}
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

// backend says where the lease is.
func (p place) backend() string {
	if p.Redis != "" {
		return "Redis"
	}
	return string(p.Dialect)
}
