package sqllease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// SetupError is returned by Migrate if the role may not create the tables, and
// matches leasing.ErrNotSetUp. A role that may create them has to run Statements once.
type SetupError struct {
	Role       string // the database role that lacks the permission; "" on SQLite
	Statements []string
	Err        error // of the client library
}

func (e *SetupError) Error() string {
	account := "this process"
	if e.Role != "" {
		account = fmt.Sprintf("role %q", e.Role)
	}
	return fmt.Sprintf("%v: %s may not create the tables (%v); run this as a user with that right:\n%s;", abstractions.ErrNotSetUp, account, e.Err, strings.Join(e.Statements, ";\n"))
}

// Is makes the error match leasing.ErrNotSetUp.
func (e *SetupError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

func (e *SetupError) Unwrap() error { return e.Err }

// Migrate creates the tables, or brings those of an earlier release up to date and keeps their rows. Open processes of the
// earlier release refuse the tables from then on, within 10 seconds, with leasing.ErrNotSetUp: they no longer extend
// leases.
//
// Migrate does nothing if the tables already have this release's version. Otherwise it needs permission to create tables.
// Several processes may call it at the same time. Tables of another application, of a later release or from before release
// 0.1.0 are left unchanged, and the error matches leasing.ErrNotSetUp.
func (p *Provider) Migrate(ctx context.Context) error {
	return providerkit.Call(ctx, p.shell, "migrate", "", p.driver.migrate)
}

func (d *driver) migrate(ctx context.Context) error {
	found, err := d.backend.Version(ctx)
	if err == nil && found < d.Tables.Version {
		err = d.backend.Migrate(ctx)
		if setup := (*SetupError)(nil); err != nil && d.backend.Verdict(err).Class == providerkit.Denied && !errors.As(err, &setup) {
			err = &SetupError{Statements: d.Tables.Pending(found), Err: err}
		}
	} else if err == nil {
		err = d.Tables.Check(found)
	}
	if err == nil {
		d.checked.Store(time.Now().UnixNano())
	}
	return err
}

// Statements returns the statements that Migrate runs on an empty database, for applications that
// create tables with tools of their own.
func (p *Provider) Statements() []string { return slices.Clone(p.driver.Tables.Create) }
