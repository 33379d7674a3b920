//go:build !unix

package servertest

import (
	"context"
	"errors"
	"testing"
)

// Postgres is a PostgreSQL server for a single test. This package starts it on Unix systems only.
type Postgres struct {
	Server
	URL string
}

// NewPostgres skips the test: this package starts PostgreSQL on Unix systems only.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	t.Skip("PostgreSQL is started on Unix systems only")
	return nil
}

// Standby is for Unix systems only.
func (p *Postgres) Standby() *Postgres { return NewPostgres(p.T) }

// Crash is for Unix systems only.
func (p *Postgres) Crash(context.Context) error { return errors.ErrUnsupported }

// NewPgBouncer skips the test: see NewPostgres.
func NewPgBouncer(t testing.TB, _ *Postgres, _ int) *Server {
	t.Helper()
	t.Skip("PgBouncer is started on Unix systems only")
	return nil
}

// NewMariaDB skips the test: see NewPostgres.
func NewMariaDB(t testing.TB, _ ...string) *Server {
	t.Helper()
	t.Skip("MariaDB is started on Unix systems only")
	return nil
}
