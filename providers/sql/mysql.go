package sqllease

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// mysql is the backend on MariaDB and MySQL. A row is read, the rules decide, and one request writes it under the condition that its
// version is still the same: no lock is held while the server waits for a client, who may be paused for good.
//
// A deadline counts from the clock of the read, NOW(6): the start of a statement that waits for no row, and so never later than what
// it sees. Until the write that clock can only get late, which frees nothing early: a lease that had run out then has run
// out since. The condition of the write, which may have waited, asks SYSDATE(6), the time at which it is evaluated.
type mysql struct {
	db     mysqlDatabase
	sql    map[string]string
	tables *tables
	record recording
	*wakeups
	limit  semaphore
	number func(error) int
}

func (m *mysql) class(err error) providerkit.Class { return mysqlClass(err, m.number(err)) }

// query runs a statement that may wait for renewals, who go first.
func (m *mysql) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := m.limit.enter(ctx); err != nil {
		return err
	}
	defer m.limit.leave()
	return m.db.query(ctx, statement, args, each)
}

// count runs a statement and tells how many rows it has changed.
func count(ctx context.Context, on statements, statement string, args ...any) (n int, err error) {
	err = on.query(ctx, statement+"; SELECT ROW_COUNT()", args, func(scan scan) error { return scan(&n) })
	return n, err
}

func (m *mysql) apply(ctx context.Context, op op) (applied, error) {
	done, err := m.change(ctx, m, op.name, op.id, func(r *mysqlRow) providerkit.Change {
		if op.acquire == nil {
			return op.rule(&r.Record)
		}
		left, kept := r.kept()
		return m.admit(&r.row, &r.waiters, &op, left, kept)
	})
	if err == nil && done.Err == nil && op.acquire != nil {
		m.served(op.id)
	}
	return done, err
}

// change begins again if the row has changed since it was read. Who loses that race lost it to a change that was made.
func (m *mysql) change(ctx context.Context, on statements, name, id string, rule func(*mysqlRow) providerkit.Change) (done applied, err error) {
	for n := 0; n == 0 && err == nil; {
		var r mysqlRow
		if r, err = m.find(ctx, on, name, id); err != nil {
			break
		}
		holder, until := r.ID, r.until()
		done = applied{Change: rule(&r)}
		done.after = r.Record
		if !done.Write {
			break
		}
		if r.ID != holder {
			until = forever
		}
		n, err = m.write(ctx, on, &r, until, &done.Change)
	}
	return done, err
}

// write makes a change while the clock is before until. It returns 0 if the row has changed since it was read.
func (m *mysql) write(ctx context.Context, on statements, r *mysqlRow, until int64, c *providerkit.Change) (int, error) {
	args := append([]any{r.Name, max(r.version+1, r.now)}, r.values(c)...)
	statement := m.sql["insert"]
	if r.version != 0 {
		statement, args = m.sql["update"], append(args[1:], r.Name, r.version, until)
	}
	if !m.record.changes {
		return count(ctx, on, statement, args...)
	}
	// It is sent as a whole, and one transaction: the server waits for nobody before its end.
	statement = "START TRANSACTION; " + statement + "; SET @leasing_written = ROW_COUNT()"
	for _, e := range []abstractions.HistoryEntry{c.Expired, c.Note} {
		if e.Kind != "" && (e.Kind != abstractions.HistoryRenewed || m.record.renewals) {
			statement, args = statement+"; "+m.sql["note"], append(args, noteArgs(r.Name, e)...)
		}
	}
	n := 0
	err := on.query(ctx, statement+"; COMMIT; SELECT @leasing_written", args, func(scan scan) error { return scan(&n) })
	return n, err
}

func noteArgs(name string, e abstractions.HistoryEntry) []any {
	return []any{name, e.Time.UnixMicro(), string(e.Kind), e.ID, e.Owner, e.Token, e.Actor, e.Reason}
}

// listedRow is a row in the argument of a statement of many.
type listedRow struct {
	Name     string `json:"name"`
	Version  int64  `json:"version"`
	Next     int64  `json:"next"`
	TTL      *int64 `json:"ttl,omitempty"`
	Expires  *int64 `json:"expires,omitempty"`
	Metadata string `json:"metadata"` // JSON in a text
	Until    int64  `json:"until"`
}

// renew reads all the rows and writes all that the rules allow, in two statements. If some row is locked or not as expected, each
// half goes on by itself, which may renew some twice; and each claim, if the history wants an entry of each.
func (m *mysql) renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) (results []abstractions.RenewResult, err error) {
	on := statements(m.db)
	if !wait {
		on = withoutWaiting{m.db}
	}
	if len(reqs) == 1 {
		done, err := m.change(ctx, on, reqs[0].Name, reqs[0].ID, func(r *mysqlRow) providerkit.Change { return r.Renew(reqs[0]) })
		if err != nil {
			return nil, err
		}
		result := abstractions.RenewResult{Err: done.Err}
		if result.Err == nil {
			result.Grant = grant(&done.after, reqs[0].TTL)
		}
		return []abstractions.RenewResult{result}, nil
	}
	if !m.record.renewals {
		results, err = m.renewMany(ctx, on, reqs)
		if results != nil || err != nil && (m.class(err) != providerkit.Refused || ctx.Err() != nil) {
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

func (m *mysql) renewMany(ctx context.Context, on statements, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	names := make([]string, len(reqs))
	for i := range reqs {
		names[i] = reqs[i].Name
	}
	rows, err := m.rows(ctx, on, names)
	results, list := make([]abstractions.RenewResult, len(reqs)), []listedRow{}
	for i, req := range reqs {
		r := rows[req.Name]
		delete(rows, req.Name)
		if err != nil || r == nil { // missing, or twice in the batch
			return nil, err
		}
		r.complete(req.Name, req.ID)
		until := r.until()
		if results[i].Err = r.Renew(req).Err; results[i].Err == nil {
			results[i].Grant = grant(&r.Record, req.TTL)
			list = append(list, listedRow{r.Name, r.version, max(r.version+1, r.now), micros(r.TTL), r.deadline(), encodeMetadata(r.Metadata), until})
		}
	}
	slices.SortFunc(list, func(a, b listedRow) int { return strings.Compare(a.Name, b.Name) }) // all lock rows in this order
	text, _ := json.Marshal(list)                                                              // texts and numbers always encode
	n, err := count(ctx, on, m.sql["renew"], string(text))
	if err != nil || n < len(list) {
		return nil, err
	}
	return results, nil
}

func (m *mysql) find(ctx context.Context, on statements, name, id string) (r mysqlRow, err error) {
	err = on.query(ctx, m.sql["read"], []any{name}, func(scan scan) error { return scan(r.columns()...) })
	r.complete(name, id)
	return r, err
}

// rows reads the rows of those names that there are.
func (m *mysql) rows(ctx context.Context, on statements, names []string) (map[string]*mysqlRow, error) {
	args, found := make([]any, len(names)), make(map[string]*mysqlRow, len(names))
	for i := range names {
		args[i] = names[i]
	}
	err := eachRow(ctx, on, m.sql["rows"]+strings.Repeat(", ?", len(names)-1)+")", args, func(r *mysqlRow) { found[r.Name] = r })
	return found, err
}

// eachRow hands over rows that end with the name.
func eachRow(ctx context.Context, on statements, statement string, args []any, each func(*mysqlRow)) error {
	return on.query(ctx, statement, args, func(scan scan) error {
		r, name := &mysqlRow{}, ""
		err := scan(append(r.columns(), &name)...)
		r.complete(name, "")
		each(r)
		return err
	})
}

// forever is a time in microseconds that never comes.
const forever = 1<<62 - 1

// mysqlRow is a row as it is stored.
type mysqlRow struct {
	pgRow
	waiters lineUp
	seen    int64 // the clock once it was read
}

func (r *mysqlRow) columns() []any { return append(r.pgRow.columns(), (*string)(&r.waiters), &r.seen) }

// complete makes it a row. One that was written after the read has begun may have more time left than its TTL, although no clock
// has gone back: its deadline stays.
func (r *mysqlRow) complete(name, id string) {
	r.pgRow.complete(name, id)
	if !r.Unsettled {
		return
	}
	left := r.Left
	r.Unsettled = false
	if r.SetLeft(leftUntil(r.seen, r.expires)); r.Unsettled {
		r.now, r.Now = r.seen, time.UnixMicro(r.seen).UTC()
	} else {
		r.Left = left
	}
}

// until is the time before which a change of the holder's claim has to be written.
func (r *mysqlRow) until() int64 {
	if !r.Held() || r.expires == nil {
		return forever
	}
	return *r.expires
}

// kept says whether a name that nobody holds is reserved for the first who waits, and for how long.
func (r *mysqlRow) kept() (left time.Duration, ok bool) {
	if r.ID != "" || r.waiters == "" || r.expires == nil {
		return 0, false
	}
	left = leftUntil(r.now, r.expires)
	return left, left > 0 && left < longestTurn
}

// deadline is when the lease ends.
func (r *mysqlRow) deadline() *int64 {
	ends := micros(r.Left)
	if ends != nil {
		*ends += r.now
	}
	return ends
}

// values are what a change makes of the row, from the token on.
func (r *mysqlRow) values(c *providerkit.Change) []any {
	acquired, expires := sql.NullInt64{Int64: r.AcquiredAt.UnixMicro(), Valid: !r.AcquiredAt.IsZero()}, r.expires
	if c.Deadline {
		expires = nil
		if r.ID != "" {
			expires = r.deadline()
		} else if c.Wake && r.waiters != "" {
			ends := r.now + waitqueue.Grace.Microseconds()
			expires = &ends
		}
	}
	return []any{
		r.Token, r.ID, r.Owner, ttlColumn(&r.Record), encodeMetadata(r.Metadata), acquired, expires,
		r.Breaking, r.BrokenBy, r.BreakReason, encodeEnded(r.Ended, r.ended), string(r.waiters),
	}
}
