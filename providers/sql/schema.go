package sqllease

import (
	"context"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// schemaVersion is the version of the tables that this code reads and writes.
const schemaVersion = 1

// Beside the table of leases, "lease", stand these.
const (
	historySuffix = "_history"
	schemaSuffix  = "_schema" // one row for each version that was installed
)

// naming says where the tables are.
type naming struct{ schema, table string }

// SetupError is returned by Migrate if the role may not create the tables, and
// matches leasing.ErrNotSetUp. Somebody who may has to run Statements once.
type SetupError struct {
	Role       string // of the database that lacks the right; "" on SQLite
	Statements []string
	Err        error // of the client library
}

func (e *SetupError) Error() string {
	who := "this process"
	if e.Role != "" {
		who = fmt.Sprintf("role %q", e.Role)
	}
	return fmt.Sprintf("%v: %s may not create the tables (%v); run this as somebody who may:\n%s;", abstractions.ErrNotSetUp, who, e.Err, strings.Join(e.Statements, ";\n"))
}

// Is makes the error match leasing.ErrNotSetUp.
func (e *SetupError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

func (e *SetupError) Unwrap() error { return e.Err }

// Migrate creates the tables, or brings them up to date. It does nothing if
// they are, needs rights to create only if they aren't, and may be called by
// several processes at a time. Tables made by newer code are left alone, and
// reported as leasing.ErrNotSetUp.
func (s *Store) Migrate(ctx context.Context) error {
	ctx, done, err := s.open(ctx)
	if err != nil {
		return s.wrap("migrate", "", err)
	}
	defer done()
	found, err := s.backend.version(ctx)
	if err == nil {
		err = checkNotNewer(found)
	}
	if err == nil && found < schemaVersion {
		err = s.backend.migrate(ctx)
	}
	s.ready.Store(err == nil)
	return s.failed(ctx, "migrate", "", err)
}

// Statements returns what Migrate runs on an empty database, for those who
// create tables with tools of their own.
func (s *Store) Statements() []string { return s.backend.statements() }

// check makes sure, once, that the tables are there and of our version.
func (s *Store) check(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	found, err := s.backend.version(ctx)
	if err != nil {
		return err
	}
	if found < schemaVersion {
		return fmt.Errorf("%w: the tables are missing, or of the old version %d instead of %d: call Migrate, or set sqllease.Options.Migrate", abstractions.ErrNotSetUp, found, schemaVersion)
	}
	if err := checkNotNewer(found); err != nil {
		return err
	}
	s.ready.Store(true)
	return nil
}

func checkNotNewer(found int) error {
	if found > schemaVersion {
		return fmt.Errorf("%w: the tables are of version %d, and this code knows versions up to %d: use a newer release of providers/sql", abstractions.ErrNotSetUp, found, schemaVersion)
	}
	return nil
}
