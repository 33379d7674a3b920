package sqllease

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (m *mysql) read(ctx context.Context, name string) (providerkit.Record, error) {
	r, err := m.find(ctx, m, name, "")
	return r.Record, err
}

func (m *mysql) list(ctx context.Context, req abstractions.ListRequest, limit int) (records []providerkit.Record, err error) {
	last := []byte{0xff} // after every name
	if end := after(req.Prefix); end != nil {
		last = []byte(*end)
	}
	err = eachRow(ctx, m, m.sql["list"], []any{req.Prefix, req.After, last, req.HeldOnly, limit}, func(r *mysqlRow) { records = append(records, r.Record) })
	return records, err
}

// waiting tells who waits, but for one that has let its turn pass. Whether their processes live is not known.
func (m *mysql) waiting(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	r, err := m.find(ctx, m, name, "")
	if _, kept := r.kept(); r.ID == "" && r.expires != nil && !kept {
		r.waiters = r.waiters.rest()
	}
	return r.waiters.list(r.Now, func(string) bool { return true }), err
}

func (m *mysql) turns(ctx context.Context, all []turn) (waiters []string, err error) {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	rows, err := m.rows(ctx, m, names)
	for _, w := range all {
		r := rows[w.Name]
		if r == nil { // nobody has it
			r = &mysqlRow{}
		}
		_, kept := r.kept()
		if head, _ := r.waiters.head(); !r.Held() && (!kept || head == w.ID) {
			waiters = append(waiters, w.ID)
		}
	}
	return waiters, err
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (m *mysql) dequeue(ctx context.Context, name, waiter string) error {
	_, err := m.change(ctx, m, name, "", func(r *mysqlRow) providerkit.Change {
		_, kept := r.kept()
		return r.waiters.leave(waiter, kept)
	})
	return err
}

// sweep deletes those of the rows it has looked at that nobody has changed since.
func (m *mysql) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	from := after
	if from == nil {
		from = new(string)
		err = m.query(ctx, m.sql["hand"], nil, func(scan scan) error { return scan(from) })
	}
	seen, forgotten := 0, []listedRow{}
	if err == nil {
		err = eachRow(ctx, m, m.sql["page"], []any{*from, limit}, func(r *mysqlRow) {
			seen++
			last = r.Name
			r.IdleSince = time.UnixMicro(r.version)
			if r.Forgettable(idle) {
				forgotten = append(forgotten, listedRow{Name: r.Name, Version: r.version})
			}
		})
	}
	if seen < limit {
		last = ""
	}
	if err == nil && len(forgotten) > 0 {
		text, _ := json.Marshal(forgotten) // texts and numbers always encode
		deleted, err = count(ctx, m, m.sql["forget"], string(text))
	}
	if err == nil && after == nil {
		err = run(ctx, m, m.sql["move_hand"], last)
	}
	return deleted, last, err
}

func (m *mysql) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var args []any
	for _, e := range entries {
		args = append(args, noteArgs(e.Name, e.HistoryEntry)...)
	}
	return run(ctx, m, m.sql["notes"]+strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?)", len(entries)-1), args...)
}

func (m *mysql) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	return count(ctx, m, m.sql["trim"], limit, m.record.retention.Microseconds())
}

func (m *mysql) version(ctx context.Context) (int, error) { return m.tables.installed(ctx, m) }

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
	if err = m.tables.install(ctx, on, m.tables.create); err != nil && m.class(err) == providerkit.Denied {
		err = &SetupError{Statements: m.tables.create, Err: err}
	}
	_ = run(ctx, on, "SELECT RELEASE"+lock+")", m.tables.table)
	return err
}

func (m *mysql) close() error {
	m.wakeups.Close()
	_ = m.db.Close() // its error is that of a connection that has ended by itself
	return nil
}
