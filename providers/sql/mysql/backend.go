package mysqllease

import (
	"context"
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// backend is the one on MariaDB and MySQL. A row is read, the rules decide, and one request writes the row under the condition that its
// version is still the same: no lock is held while the server waits for a client, which may be paused for good.
//
// A deadline counts from the clock of the read, NOW(6): the start of a statement that waits for no row, and so never later than the
// row that it reads. Until the write that clock can only fall behind, which frees no name early: a lease that had run out then has run
// out since. The condition of the write, which may have waited, uses SYSDATE(6), the time at which it is evaluated.
type backend struct {
	*dialect.RowStore
	dialect.Limited // except for renewals
	db              database
}

// count runs a statement and returns the number of rows that it has changed.
func count(ctx context.Context, on dialect.Statements, statement string, args ...any) (n int, err error) {
	err = on.Query(ctx, statement+"; SELECT ROW_COUNT()", args, func(scan dialect.Scan) error { return scan(&n) })
	return n, err
}

func (m *backend) Change(ctx context.Context, name, id string, rule func(*dialect.Row) providerkit.Change) (dialect.Applied, error) {
	return m.changeOn(ctx, m, name, id, rule)
}

// changeOn starts over if the row has changed since it was read. Each lost race is another claim's change.
func (m *backend) changeOn(ctx context.Context, on dialect.Statements, name, id string, rule func(*dialect.Row) providerkit.Change) (done dialect.Applied, err error) {
	for n := 0; n == 0 && err == nil; {
		var r *dialect.Row
		if r, err = m.Find(ctx, on, name, id, m.Clock()); err != nil {
			break
		}
		holder, before := r.ID, until(r)
		if done, _ = m.Decide(r, rule); !done.Write {
			break
		}
		if r.ID != holder {
			before = forever
		}
		n, err = m.write(ctx, on, r, before, m.Record.Kept(name, &done.Change))
	}
	return done, err
}

// write makes a change while the clock is before until. It returns 0 if the row has changed since it was read.
func (m *backend) write(ctx context.Context, on dialect.Statements, r *dialect.Row, until int64, notes []abstractions.NamedEntry) (n int, err error) {
	before := r.Encode()
	statement, args := m.SQL["insert"], r.Columns()[:columnsStored]
	if before == 0 {
		args = append(args, r.Floor)
	} else {
		statement, args = m.SQL["update"], append(args[1:], r.Name, before, until)
	}
	if len(notes) == 0 {
		if n, err = count(ctx, on, statement, args...); n > 1 { // the insert has met a row
			n = 0
		}
		return n, err
	}
	// It is sent as a whole, and is one transaction: the server waits for no client before its end.
	statement = "START TRANSACTION; " + statement + "; SET @leasing_written = (ROW_COUNT() = 1)"
	for _, e := range notes {
		statement, args = statement+"; "+m.SQL["note"], append(args, dialect.NoteArgs(&e)...)
	}
	err = on.Query(ctx, statement+"; COMMIT; SELECT @leasing_written", args, func(scan dialect.Scan) error { return scan(&n) })
	return n, err
}

// Renew reads all the rows and writes all renewals that the rules allow, in two statements. If a row is locked or has changed, each
// half runs alone, which may renew some claims twice; and each claim runs alone if the history needs an entry of each.
func (m *backend) Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) (results []abstractions.RenewResult, err error) {
	on := dialect.Statements(m.db)
	if !wait {
		on = withoutWaiting{m.db}
	}
	if len(reqs) == 1 {
		done, err := m.changeOn(ctx, on, reqs[0].Name, reqs[0].ID, func(r *dialect.Row) providerkit.Change { return r.Renew(reqs[0]) })
		if err != nil { // it may have been rolled back
			return nil, err
		}
		return []abstractions.RenewResult{done.Renewed(reqs[0].TTL)}, nil
	}
	if !m.Record.Renewals {
		results, err = m.renewMany(ctx, on, reqs)
		if results != nil || err != nil && (m.Verdict(err).Class != providerkit.Refused || ctx.Err() != nil) {
			return results, err
		}
	}
	for _, half := range [][]abstractions.RenewRequest{reqs[:len(reqs)/2], reqs[len(reqs)/2:]} {
		some, err := m.Renew(ctx, half, wait)
		if err != nil {
			some = slices.Repeat([]abstractions.RenewResult{{Err: err}}, len(half))
		}
		results = append(results, some...)
	}
	return results, nil
}

// renewMany returns nil unless all renewals that the rules allow were written.
func (m *backend) renewMany(ctx context.Context, on dialect.Statements, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	names, order := make([]any, len(reqs)), make([]int, len(reqs))
	for i := range reqs {
		names[i], order[i] = reqs[i].Name, i
	}
	rows, err := m.Rows(ctx, on, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(reqs[a].Name, reqs[b].Name) }) // all batches lock rows in this order
	results, renewed, args := make([]abstractions.RenewResult, len(reqs)), 0, []any{}
	for _, i := range order {
		r := rows[reqs[i].Name]
		delete(rows, reqs[i].Name)
		if r == nil { // missing, or twice in the batch
			return nil, nil
		}
		end := until(r)
		r.Settle(reqs[i].ID)
		done, _ := m.Decide(r, func(r *dialect.Row) providerkit.Change { return r.Renew(reqs[i]) })
		if results[i] = done.Renewed(reqs[i].TTL); done.Err == nil {
			renewed++
			before := r.Encode()
			args = append(args, []byte(r.Name), before, r.Version, r.TTLMicros, r.MetadataText, r.Ends.Wall, end)
		}
	}
	if renewed == 0 {
		return results, nil
	}
	if n, err := count(ctx, on, dialect.Repeated(renewed, m.SQL["renew"]), args...); err != nil || n < renewed {
		return nil, err
	}
	return results, nil
}

// forever is a time in microseconds that never comes.
const forever = math.MaxInt64

// until is the time before which a change of the holder's claim has to be written.
func until(r *dialect.Row) int64 {
	if !r.Held() || r.Ends.Wall == 0 {
		return forever
	}
	return r.Ends.Wall
}

// Lives returns true, since the answer is unknown.
func (m *backend) Lives(string) bool { return true }

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

// Version also checks that SYSDATE returns the time: if it is NOW, settleAgain would move a deadline to before its holder's trust ends.
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

// Migrate holds a lock of the server, for as long as the connection lives, so that processes that start together migrate one after
// the other.
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
	_ = m.db.Close() // its error is that of a connection that has already ended
	return nil
}

// files has the statements of this dialect alone.
//
//go:embed statements/*.sql
var files embed.FS

// tablesOf fills in the statements for one table. Times are in microseconds since 1970: sessions are in UTC.
func tablesOf(table string) dialect.Tables {
	return dialect.NewTables("", table, "`", map[string]string{
		// The start of the statement, and the time at which this is evaluated.
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

// columnsRead is the number of Row.Columns that are read, and columnsStored the number that are stored.
const columnsRead, columnsStored = 19, 14
