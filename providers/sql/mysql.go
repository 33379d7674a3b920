package sqllease

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// mysql is the backend on MariaDB and MySQL. A row is read, the rules decide, and one request writes it under the condition that its
// version is still the same: no lock is held while the server waits for a client, who may be paused for good.
//
// A deadline counts from the clock of the read, NOW(6): the start of a statement that waits for no row, and so never later than what
// it sees. Until the write that clock can only get late, which frees nothing early: a lease that had run out then has run
// out since. The condition of the write, which may have waited, asks SYSDATE(6), the time at which it is evaluated.
type mysql struct {
	rowStore
	limited // but for renewals
	db      mysqlDatabase
}

// count runs a statement and tells how many rows it has changed.
func count(ctx context.Context, on statements, statement string, args ...any) (n int, err error) {
	err = on.query(ctx, statement+"; SELECT ROW_COUNT()", args, func(scan scan) error { return scan(&n) })
	return n, err
}

func (m *mysql) change(ctx context.Context, name, id string, rule func(*storedRow) providerkit.Change) (applied, error) {
	return m.changeOn(ctx, m, name, id, rule)
}

// changeOn begins again if the row has changed since it was read. Who loses that race lost it to a change that was made.
func (m *mysql) changeOn(ctx context.Context, on statements, name, id string, rule func(*storedRow) providerkit.Change) (done applied, err error) {
	for n := 0; n == 0 && err == nil; {
		var r *storedRow
		if r, err = m.find(ctx, on, name, id, m.clock()); err != nil {
			break
		}
		holder, until := r.ID, r.until()
		if done, _ = m.decide(r, rule); !done.Write {
			break
		}
		if r.ID != holder {
			until = forever
		}
		n, err = m.write(ctx, on, r, until, m.record.kept(name, &done.Change))
	}
	return done, err
}

// write makes a change while the clock is before until. It returns 0 if the row has changed since it was read.
func (m *mysql) write(ctx context.Context, on statements, r *storedRow, until int64, notes []abstractions.NamedEntry) (n int, err error) {
	before := r.encode()
	statement, args := m.sql["insert"], r.columns()[:mysqlStored]
	if before != 0 {
		statement, args = m.sql["update"], append(args[1:], r.Name, before, until)
	}
	if len(notes) == 0 {
		if n, err = count(ctx, on, statement, args...); n > 1 { // the insert has met a row
			n = 0
		}
		return n, err
	}
	// It is sent as a whole, and one transaction: the server waits for nobody before its end.
	statement = "START TRANSACTION; " + statement + "; SET @leasing_written = (ROW_COUNT() = 1)"
	for _, e := range notes {
		statement, args = statement+"; "+m.sql["note"], append(args, noteArgs(&e)...)
	}
	err = on.query(ctx, statement+"; COMMIT; SELECT @leasing_written", args, func(scan scan) error { return scan(&n) })
	return n, err
}

// renew reads all the rows and writes all that the rules allow, in two statements. If some row is locked or not as expected, each
// half goes on by itself, which may renew some twice; and each claim, if the history wants an entry of each.
func (m *mysql) renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) (results []abstractions.RenewResult, err error) {
	on := statements(m.db)
	if !wait {
		on = withoutWaiting{m.db}
	}
	if len(reqs) == 1 {
		done, err := m.changeOn(ctx, on, reqs[0].Name, reqs[0].ID, func(r *storedRow) providerkit.Change { return r.Renew(reqs[0]) })
		if err != nil { // it may have been rolled back
			return nil, err
		}
		return []abstractions.RenewResult{done.renewed(reqs[0].TTL)}, nil
	}
	if !m.record.renewals {
		results, err = m.renewMany(ctx, on, reqs)
		if results != nil || err != nil && (m.verdict(err).Class != providerkit.Refused || ctx.Err() != nil) {
			return results, err
		}
	}
	for _, half := range [][]abstractions.RenewRequest{reqs[:len(reqs)/2], reqs[len(reqs)/2:]} {
		some, err := m.renew(ctx, half, wait)
		if err != nil {
			some = slices.Repeat([]abstractions.RenewResult{{Err: err}}, len(half))
		}
		results = append(results, some...)
	}
	return results, nil
}

// renewMany returns nothing if not all that the rules allow was written.
func (m *mysql) renewMany(ctx context.Context, on statements, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	names, order := make([]any, len(reqs)), make([]int, len(reqs))
	for i := range reqs {
		names[i], order[i] = reqs[i].Name, i
	}
	rows, err := m.rows(ctx, on, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(reqs[a].Name, reqs[b].Name) }) // all lock rows in this order
	results, renewed, args := make([]abstractions.RenewResult, len(reqs)), 0, []any{}
	for _, i := range order {
		r := rows[reqs[i].Name]
		delete(rows, reqs[i].Name)
		if r == nil { // missing, or twice in the batch
			return nil, nil
		}
		until := r.until()
		r.settle(reqs[i].ID)
		done, _ := m.decide(r, func(r *storedRow) providerkit.Change { return r.Renew(reqs[i]) })
		if results[i] = done.renewed(reqs[i].TTL); done.Err == nil {
			renewed++
			before := r.encode()
			args = append(args, []byte(r.Name), before, r.version, r.ttl, r.metadata, r.ends.Wall, until)
		}
	}
	if renewed == 0 {
		return results, nil
	}
	if n, err := count(ctx, on, repeated(renewed, m.sql["renew"]), args...); err != nil || n < renewed {
		return nil, err
	}
	return results, nil
}

// forever is a time in microseconds that never comes.
const forever = math.MaxInt64

// until is the time before which a change of the holder's claim has to be written.
func (r *storedRow) until() int64 {
	if !r.Held() || r.ends.Wall == 0 {
		return forever
	}
	return r.ends.Wall
}

// settleAgain is for a row that has more time left than its TTL: it may have been written after the read has begun, although no clock
// has gone back. Its deadline stays then.
func (r *storedRow) settleAgain() {
	left, late := r.Left, time.UnixMicro(r.seen)
	r.Unsettled = false
	if r.SetLeft(r.ends.Left(providerkit.HostTime{Wall: late})); r.Unsettled {
		r.at.Wall, r.Now = late, late.UTC()
	} else {
		r.Left = left
	}
}

// lives does not know.
func (m *mysql) lives(string) bool { return true }

// sweep deletes those of the rows it has looked at that nobody has changed since.
func (m *mysql) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	return m.sweepPage(ctx, m, after, limit, idle, func(old []*storedRow) (int, error) {
		var args []any
		for _, r := range old {
			args = append(args, []byte(r.Name), r.version)
		}
		return count(ctx, m, repeated(len(old), m.sql["forget"]), args...)
	})
}

func (m *mysql) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var args []any
	for _, e := range entries {
		args = append(args, noteArgs(&e)...)
	}
	return run(ctx, m, repeated(len(entries), m.sql["notes"]), args...)
}

func (m *mysql) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	return count(ctx, m, m.sql["trim"], limit, m.record.retention.Microseconds())
}

// version also sees whether SYSDATE tells the time: where it is NOW, settleAgain would move a deadline to before its holder's trust ends.
func (m *mysql) version(ctx context.Context) (int, error) {
	var stands bool
	err := m.query(ctx, "SELECT SLEEP(0.001), SYSDATE(6) = NOW(6)", nil, func(scan scan) error { return scan(new(int), &stands) })
	switch {
	case err != nil:
		return 0, err
	case stands:
		return 0, fmt.Errorf("%w: the server runs with --sysdate-is-now: its clock stands still within a statement", abstractions.ErrNotSetUp)
	}
	return m.tables.installed(ctx, m)
}

// migrate holds a lock of the server, for as long as the connection lives, so that processes that start together do it one after
// the other.
func (m *mysql) migrate(ctx context.Context) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	on, locked := viaSQL{conn}, false
	const lock = "_LOCK(md5(concat('leasing.', DATABASE(), '.', ?))"
	err = on.query(ctx, "SELECT coalesce(GET"+lock+", 5), 0)", []any{m.tables.table}, func(scan scan) error { return scan(&locked) })
	if err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("%w: another process is making the tables", abstractions.ErrUnavailable)
	}
	err = m.tables.install(ctx, on, m.tables.create)
	_ = run(ctx, on, "SELECT RELEASE"+lock+")", m.tables.table)
	return err
}

func (m *mysql) close() error {
	m.wakeups.Close()
	_ = m.db.Close() // its error is that of a connection that has ended by itself
	return nil
}

// mysqlTables fills in the statements for one table. Times are in microseconds since 1970: sessions are in UTC.
func mysqlTables(table string) tables {
	return newTables("", table, "`", map[string]string{
		// The start of the statement, and the time at which this is evaluated.
		"start": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))",
		"now":   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
		// Columns in the order of storedRow.columns, after the name, of a row that may be missing. The start is never later than what
		// is seen; the clock is asked once the row is read.
		"row": `coalesce(l.version, 0), coalesce(l.token, 0), coalesce(l.id, ''), coalesce(l.owner, ''), l.ttl_us,
	coalesce(l.metadata, '{}'), l.acquired_us, coalesce(l.expires_us, 0), coalesce(l.breaking, 0), coalesce(l.broken_by, ''),
	coalesce(l.break_reason, ''), coalesce(l.ended, ''), coalesce(l.waiters, ''), '', 0, {{start}}, {{now}},
	coalesce(CASE WHEN coalesce(l.token, 0) = 0 THEN (SELECT f.token FROM {{lease}} AS f WHERE f.name = '') END, 0)`,
	}, "common", "mariadb")
}

// mysqlColumns is how many of storedRow.columns are read, and mysqlStored how many are stored.
const mysqlColumns, mysqlStored = 19, 14
