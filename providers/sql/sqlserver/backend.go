package sqlserverlease

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// backend is the backend of SQL Server. A write depends on the version, the token and the ID of the row that was read. See the package
// documentation.
type backend struct {
	*dialect.ServerStore
	db database
}

// errNoAnswer is the error of a batch that has ended without its answer. It leaves the outcome unknown.
var errNoAnswer = errors.New("the server did not return the number of rows that it has written")

// change runs a batch that sets @written, and returns @written.
func change(ctx context.Context, on dialect.Statements, statement string, args ...any) (int, error) {
	written := -1
	err := on.Query(ctx, statement, append(args, sql.Named("written", sql.Out{Dest: &written})), nil)
	switch {
	case err != nil:
		return 0, err
	case written < 0:
		return 0, errNoAnswer
	}
	return written, nil
}

// rowCount follows a statement whose rows are counted.
const rowCount = ";\nSET @written = @@ROWCOUNT"

// transaction returns a batch that writes the rows of a statement and the entries of the history. It commits if the statement has
// written a given number of rows before a given time. Its arguments are those of the statement and of the entries, and then the
// number and the time.
func (b *backend) transaction(statement string, entries int) string {
	noted := ""
	if entries > 0 {
		noted = "IF @written > 0 " + dialect.Repeated(entries, b.SQL["note"]) + ";\n"
	}
	return "BEGIN TRANSACTION;\n" + statement + rowCount + ";\n" + noted + b.SQL["commit"]
}

// Renewing implements dialect.ServerDialect.
func (b *backend) Renewing(wait bool) dialect.Statements {
	on := b.db
	if !wait {
		on.wait = noLockWait
	}
	return on
}

// Write implements dialect.ServerDialect. If the row was inserted since it was read, the error is a duplicate
// key.
func (b *backend) Write(ctx context.Context, on dialect.Statements, w dialect.Write, notes []abstractions.NamedEntry) (int, error) {
	statement, args := b.SQL["insert"], w.Row.Columns()[:dialect.ServerColumns]
	if w.Version == 0 {
		args = append(args, w.Floor)
	} else {
		statement, args = b.SQL["update"], append(args[1:], w.Row.Name, w.Version, w.Token, w.ID, w.Until)
	}
	args = append(args, noteArgs(notes)...)
	return change(ctx, on, b.transaction(statement, len(notes)), append(args, 1, w.Until)...)
}

// WriteAll implements dialect.ServerDialect. One transaction writes all rows, or changes nothing.
func (b *backend) WriteAll(ctx context.Context, on dialect.Statements, all []dialect.Write) (int, error) {
	args, first := []any{}, all[0].Until
	for _, w := range all {
		first = min(first, w.Until)
		args = append(args, w.Row.Name, w.Version, w.Token, w.ID, w.Row.Version, w.Row.TTLMicros, w.Row.MetadataText, w.Row.Ends.Wall)
	}
	statement := b.transaction(dialect.Repeated(len(all), b.SQL["renew"]), 0)
	return change(ctx, on, statement, append(args, first, len(all), first)...)
}

// Raced reports whether a write has met a row that another process has inserted. After maxRepetitions lost
// races it returns false, since no read shows the row with this key.
func (b *backend) Raced(err error, times int) bool { return isDuplicate(err) && times < maxRepetitions }

func noteArgs(entries []abstractions.NamedEntry) (args []any) {
	for i := range entries {
		args = append(args, dialect.NoteArgs(&entries[i])...)
	}
	return args
}

// The server accepts 2,100 parameters in a batch, and a renewal or an entry has 8:
// https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server.
const maxItems = 256

// Sweep deletes the rows of its page that have not changed since they were read.
func (b *backend) Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	return b.SweepPage(ctx, b, after, limit, idle, func(old []*dialect.Row) (int, error) {
		var args []any
		for _, r := range old {
			args = append(args, r.Name, r.Version)
		}
		return change(ctx, b, dialect.Repeated(len(old), b.SQL["forget"])+rowCount, args...)
	})
}

// WriteHistory appends entries. If they do not fit in one batch, it uses a transaction of several
// batches.
func (b *backend) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	note := func(on dialect.Statements, some []abstractions.NamedEntry) error {
		return dialect.Run(ctx, on, dialect.Repeated(len(some), b.SQL["note"]), noteArgs(some)...)
	}
	switch {
	case len(entries) == 0:
		return nil
	case len(entries) <= maxItems:
		return note(b, entries)
	}
	return b.db.transact(ctx, func(on dialect.Statements) error {
		for some := range slices.Chunk(entries, maxItems) {
			if err := note(on, some); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *backend) SweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	return change(ctx, b, b.SQL["trim"]+rowCount, limit, b.Record.Retention.Microseconds())
}

// Version also checks that the table of leases has its key, which keeps two claims from inserting one name.
func (b *backend) Version(ctx context.Context) (version int, err error) {
	version, err = b.Tables.Installed(ctx, b)
	if err != nil || version == 0 {
		return version, err
	}
	var keyed bool
	if err = b.Query(ctx, b.SQL["keyed"], nil, func(scan dialect.Scan) error { return scan(&keyed) }); err == nil && !keyed {
		err = fmt.Errorf("%w: there is no table %s with its primary key", abstractions.ErrNotSetUp, b.Tables.Name(""))
	}
	return version, err
}

// Migrate runs in one transaction under a lock of the database, so that processes that start together migrate one after the other.
func (b *backend) Migrate(ctx context.Context) error {
	return b.db.transact(ctx, func(on dialect.Statements) error {
		locked := -1
		err := on.Query(ctx, b.SQL["lock"], []any{"leasing." + b.Tables.Schema}, func(scan dialect.Scan) error { return scan(&locked) })
		if err == nil && locked < 0 {
			err = fmt.Errorf("%w: another process is making the tables", abstractions.ErrUnavailable)
		}
		if err == nil {
			err = b.Tables.Install(ctx, on, b.Tables.Create)
		}
		return err
	})
}

func (b *backend) Verdict(err error) sqlkit.Verdict { return verdict(err) }

func (b *backend) Close() error {
	b.Wakeups.Close()
	if b.db.own {
		_ = b.db.Close() // an error only means that a connection has already ended
	}
	return nil
}

// files has the statements of this dialect.
//
//go:embed statements/*.sql
var files embed.FS

// tablesOf fills in the statements for one table. Times are in microseconds since 1970, in UTC.
func tablesOf(schema, table string) dialect.Tables {
	return dialect.NewTables(schema, table, "[]", map[string]string{
		"namespace": schema,
		// DATEDIFF would overflow after 36 minutes.
		"clock": "DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME())",
		// A row made by hand may have the version 0, which stands for no row.
		"was": "CASE WHEN l.version < 1 THEN 1 ELSE l.version END",
		// Columns in the order of Row.Columns, after the name. Only read.sql has the second clock and the floor.
		"row": `{{was}}, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us, l.breaking, l.broken_by, l.break_reason,
	l.ended, l.waiters, N'', CAST(0 AS bigint), @start, @start, CAST(0 AS bigint)`,
	}, dialect.RowStatements, files)
}
