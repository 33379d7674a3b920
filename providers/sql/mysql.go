package sqllease

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// mysql is the backend on MariaDB and MySQL. Each change is read, decided by the rules, and written by one statement
// under the condition that the row's version is still the same: no lock is held while the server waits for a client,
// who may be paused for good.
//
// A deadline counts from the clock as the read saw it, NOW(6): the start of a statement that waits for no row, and so
// never later than what it has read. Between the read and the write that clock can only be late, which frees
// nothing early: a lease that had run out then has run out since. The condition of the write, which may
// have waited for the row, asks SYSDATE(6), the time at which it is evaluated.
type mysql struct {
	db     *sql.DB
	sql    map[string]string
	tables *tables
	record recording
	*wakeups
	limit  semaphore
	number func(error) int
}

func (m *mysql) class(err error) providerkit.Class { return mysqlClass(err, m.number(err)) }

func (m *mysql) apply(ctx context.Context, op op) (done applied, err error) {
	err = m.limited(ctx, func() error {
		done, err = m.change(ctx, op)
		return err
	})
	return done, err
}

// change begins again if the row has changed since it was read. Who loses that race lost it to a change that was made.
func (m *mysql) change(ctx context.Context, op op) (applied, error) {
	for {
		found, err := m.find(ctx, op.name, op.id)
		if err != nil {
			return applied{}, err
		}
		until := found.trusted()
		holder, done := found.ID, applied{}
		if op.acquire != nil {
			left, kept := found.kept()
			done.Change = m.admit(&found.row, &found.waiters, &op, left, kept)
		} else {
			done.Change = op.rule(&found.Record)
		}
		done.after = found.Record
		written := !done.Write
		if !written {
			if found.ID != holder {
				until = forever
			}
			found.change(&done.Change)
			written, err = m.write(ctx, &found, until, &done.Change)
		}
		if err != nil || written {
			if err == nil && done.Err == nil && op.acquire != nil {
				m.served(op.id)
			}
			return done, err
		}
	}
}

// write makes a change while the clock is before until. It reports false if the row has changed since it was read.
func (m *mysql) write(ctx context.Context, r *mysqlRow, until int64, c *providerkit.Change) (bool, error) {
	statement, args := m.sql["update"], r.values()
	if before := r.version; before == 0 {
		statement, args = m.sql["insert"], append([]any{r.Name, max(1, r.now)}, args...)
	} else {
		args = append(append([]any{r.next()}, args...), r.Name, before, until)
	}
	var notes []abstractions.NamedEntry
	for _, e := range []abstractions.HistoryEntry{c.Expired, c.Note} {
		if e.Kind != "" && m.record.changes && (e.Kind != abstractions.HistoryRenewed || m.record.renewals) {
			notes = append(notes, abstractions.NamedEntry{Name: r.Name, HistoryEntry: e})
		}
	}
	if len(notes) == 0 {
		n, err := m.run(ctx, statement, args...)
		return n > 0, err
	}
	// All that is sent at once is one transaction: the server waits for nobody before its end.
	statement = "START TRANSACTION; " + statement + "; SET @leasing_written = ROW_COUNT()"
	for _, note := range notes {
		statement += "; " + m.sql["note"]
		args = append(args, noteArgs(&note)...)
	}
	ok := false
	err := m.transact(ctx, statement+"; COMMIT; SELECT @leasing_written > 0", args, func(scan scan) error { return scan(&ok) })
	return ok, err
}

func noteArgs(e *abstractions.NamedEntry) []any {
	return []any{e.Name, e.Time.UnixMicro(), string(e.Kind), e.ID, e.Owner, e.Token, e.Actor, e.Reason}
}

// renewed is one claim in the argument of the statement that renews many.
type renewed struct {
	Name     string `json:"name"`
	Version  int64  `json:"version"`
	Next     int64  `json:"next"`
	TTL      *int64 `json:"ttl,omitempty"`
	Expires  *int64 `json:"expires,omitempty"`
	Metadata string `json:"metadata"` // JSON in a text
	Until    int64  `json:"until"`
}

// renew reads all the rows and writes all that the rules allow, in two statements. If another change was faster somewhere, or
// the history wants an entry of each, each is renewed by itself, which may be the second time for some.
func (m *mysql) renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	if len(reqs) > 1 && !m.record.renewals {
		if all, err := m.renewMany(ctx, reqs, results); err != nil {
			return nil, err
		} else if all {
			return results, nil
		}
	}
	for i, req := range reqs {
		done, err := m.change(ctx, op{
			name: req.Name, id: req.ID,
			rule: func(r *providerkit.Record) providerkit.Change { return r.Renew(req) },
		})
		if err != nil && len(reqs) == 1 {
			return nil, err
		}
		if results[i] = (abstractions.RenewResult{Err: cmp.Or(err, done.Err)}); results[i].Err == nil {
			results[i].Grant = grant(&done.after, req.TTL)
		}
	}
	return results, nil
}

func (m *mysql) renewMany(ctx context.Context, reqs []abstractions.RenewRequest, results []abstractions.RenewResult) (all bool, err error) {
	names := make([]string, len(reqs))
	for i := range reqs {
		names[i] = reqs[i].Name
	}
	rows, err := m.rows(ctx, names)
	if err != nil {
		return false, err
	}
	var list []renewed
	for i := range reqs {
		r, found := rows[reqs[i].Name]
		if !found {
			return false, nil // twice in the batch, or lost
		}
		delete(rows, reqs[i].Name)
		r.complete(reqs[i].Name, reqs[i].ID)
		until := r.trusted()
		if results[i].Err = r.Renew(reqs[i]).Err; results[i].Err != nil {
			continue
		}
		results[i].Grant = grant(&r.Record, reqs[i].TTL)
		list = append(list, renewed{r.Name, r.version, r.next(), micros(r.TTL), r.deadline(), encodeMetadata(r.Metadata), until})
	}
	if len(list) == 0 {
		return true, nil
	}
	slices.SortFunc(list, func(a, b renewed) int { return cmp.Compare(a.Name, b.Name) }) // all lock rows in this order
	text, err := json.Marshal(list)
	if err != nil {
		return false, err
	}
	n, err := m.run(ctx, m.sql["renew"], string(text))
	return n == int64(len(list)), err
}

// forever is a time in microseconds that never comes.
const forever = 1<<62 - 1

// mysqlRow is a row as it is stored.
type mysqlRow struct {
	pgRow
	waiters lineUp
}

func (r *mysqlRow) columns() []any { return append(r.pgRow.columns(), (*string)(&r.waiters)) }

// trusted is until when a change of the holder's claim may be written.
func (r *mysqlRow) trusted() int64 {
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

// change sets the columns that a change of the record goes with.
func (r *mysqlRow) change(c *providerkit.Change) {
	if c.Deadline {
		r.expires = nil
		if r.ID != "" {
			r.expires = r.deadline()
		}
	}
	if c.Wake && r.ID == "" && r.waiters != "" {
		ends := r.now + waitqueue.Grace.Microseconds()
		r.expires = &ends
	}
}

// deadline is when the lease ends.
func (r *mysqlRow) deadline() *int64 {
	ends := micros(r.Left)
	if ends != nil {
		*ends += r.now
	}
	return ends
}

// next is the version after a change. That of a row which is made anew is greater too.
func (r *mysqlRow) next() int64 { return max(r.version+1, r.now) }

// values are what is written of a row, in the order of mysqlSet.
func (r *mysqlRow) values() []any {
	var acquired *int64
	if !r.AcquiredAt.IsZero() {
		us := r.AcquiredAt.UnixMicro()
		acquired = &us
	}
	return []any{
		r.Token, r.ID, r.Owner, ttlColumn(&r.Record), encodeMetadata(r.Metadata), acquired, r.expires,
		r.Breaking, r.BrokenBy, r.BreakReason, encodeEnded(r.Ended, r.ended), string(r.waiters),
	}
}
