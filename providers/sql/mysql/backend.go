package mysqllease

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// backend is the backend on MariaDB and MySQL. A read uses NOW(6), the start of the statement, since it waits for no row. A write
// may wait, so its condition uses SYSDATE(6), the time of its evaluation.
type backend struct {
	*dialect.ServerStore
	db database
}

// count runs a statement and returns the number of rows that it has changed.
func count(ctx context.Context, on dialect.Statements, statement string, args ...any) (n int, err error) {
	err = on.Query(ctx, statement+"; SELECT ROW_COUNT()", args, func(scan dialect.Scan) error { return scan(&n) })
	return n, err
}

// Renewing implements dialect.ServerDialect.
func (m *backend) Renewing(wait bool) dialect.Statements {
	if wait {
		return m.db
	}
	return noWait{m.db}
}

// Write implements dialect.ServerDialect.
func (m *backend) Write(ctx context.Context, on dialect.Statements, w dialect.Write, notes []abstractions.NamedEntry) (n int, err error) {
	statement, args := m.SQL["insert"], w.Row.Columns()[:dialect.ServerColumns]
	if w.Version == 0 {
		args = append(args, w.Floor)
	} else {
		statement, args = m.SQL["update"], append(args[1:], w.Row.Name, w.Version, w.Until)
	}
	if len(notes) == 0 {
		if n, err = count(ctx, on, statement, args...); n > 1 { // the insert has found an existing row
			n = 0
		}
		return n, err
	}
	// The statements are sent together, as one transaction: the server does not wait for the client
	// in the middle of the transaction.
	statement = "START TRANSACTION; " + statement + "; SET @leasing_written = (ROW_COUNT() = 1)"
	for _, e := range notes {
		statement, args = statement+"; "+m.SQL["note"], append(args, dialect.NoteArgs(&e)...)
	}
	err = on.Query(ctx, statement+"; COMMIT; SELECT @leasing_written", args, func(scan dialect.Scan) error { return scan(&n) })
	return n, err
}

// WriteAll implements dialect.ServerDialect. One statement writes the rows that have not changed.
func (m *backend) WriteAll(ctx context.Context, on dialect.Statements, all []dialect.Write) (int, error) {
	var args []any
	for _, w := range all {
		args = append(args, []byte(w.Row.Name), w.Version, w.Row.Version, w.Row.TTLMicros, w.Row.MetadataText, w.Row.Ends.Wall, w.Until)
	}
	return count(ctx, on, dialect.Repeated(len(all), m.SQL["renew"]), args...)
}

// Raced returns false: a lost race is not an error.
func (m *backend) Raced(error, int) bool { return false }

// Sweep deletes the rows of its page that have not changed since they were read.
func (m *backend) Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	return m.SweepPage(ctx, m, after, limit, idle, func(old []*dialect.Row) (int, error) {
		var args []any
		for _, r := range old {
			args = append(args, []byte(r.Name), r.Version)
		}
		return count(ctx, m, dialect.Repeated(len(old), m.SQL["forget"]), args...)
	})
}

func (m *backend) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var args []any
	for _, e := range entries {
		args = append(args, dialect.NoteArgs(&e)...)
	}
	return dialect.Run(ctx, m, dialect.Repeated(len(entries), m.SQL["notes"]), args...)
}

func (m *backend) SweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	return count(ctx, m, m.SQL["trim"], limit, m.Record.Retention.Microseconds())
}

// Version also checks that SYSDATE is not the same as NOW: otherwise settleClockStep would move a deadline to a time before the
// end of its holder's trust.
func (m *backend) Version(ctx context.Context) (int, error) {
	var stands bool
	err := m.Query(ctx, "SELECT SLEEP(0.001), SYSDATE(6) = NOW(6)", nil, func(scan dialect.Scan) error { return scan(new(int), &stands) })
	switch {
	case err != nil:
		return 0, err
	case stands:
		return 0, fmt.Errorf("%w: the server runs with --sysdate-is-now, so its clock stands still within a statement", abstractions.ErrNotSetUp)
	}
	return m.Tables.Installed(ctx, m)
}

// Migrate holds a server lock, which ends with its connection at the latest, so that processes that start together migrate one
// after the other.
func (m *backend) Migrate(ctx context.Context) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	on, locked := dialect.ViaSQL{Querier: conn}, false
	const lock = "_LOCK(md5(concat('leasing.', DATABASE(), '.', ?))"
	err = on.Query(ctx, "SELECT coalesce(GET"+lock+", 5), 0)", []any{m.Tables.Table}, func(scan dialect.Scan) error { return scan(&locked) })
	if err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("%w: another process is making the tables", abstractions.ErrUnavailable)
	}
	err = m.Tables.Install(ctx, on, m.Tables.Create)
	_ = dialect.Run(ctx, on, "SELECT RELEASE"+lock+")", m.Tables.Table)
	return err
}

func (m *backend) Verdict(err error) sqlkit.Verdict { return verdict(err) }

func (m *backend) Close() error {
	m.Wakeups.Close()
	_ = m.db.Close() // an error is about a connection that has already ended
	return nil
}

// files has the statements that only this dialect uses.
//
//go:embed statements/*.sql
var files embed.FS

// tablesOf fills in the statements for one table. Times are in microseconds since 1970. They are computed from NOW
// and SYSDATE, in sessions that are set to UTC.
func tablesOf(table string) dialect.Tables {
	return dialect.NewTables("", table, "`", map[string]string{
		// The start of the statement, and the time of the evaluation.
		"start": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))",
		"now":   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
		// Columns in the order of Row.Columns, after the name, of a row that may be missing. The start is never later than the
		// read; the clock is read after the row.
		"row": `coalesce(l.version, 0), coalesce(l.token, 0), coalesce(l.id, ''), coalesce(l.owner, ''), l.ttl_us,
	coalesce(l.metadata, '{}'), l.acquired_us, coalesce(l.expires_us, 0), coalesce(l.breaking, 0), coalesce(l.broken_by, ''),
	coalesce(l.break_reason, ''), coalesce(l.ended, ''), coalesce(l.waiters, ''), '', 0, {{start}}, {{now}},
	coalesce(CASE WHEN coalesce(l.token, 0) = 0 THEN (SELECT f.token FROM {{lease}} AS f WHERE f.name = '') END, 0)`,
	}, dialect.RowStatements, files)
}
