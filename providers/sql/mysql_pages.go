package sqllease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (m *mysql) read(ctx context.Context, name string) (record providerkit.Record, err error) {
	err = m.limited(ctx, func() error {
		r, err := m.find(ctx, name, "")
		record = r.Record
		return err
	})
	return record, err
}

func (m *mysql) list(ctx context.Context, req abstractions.ListRequest, limit int) (records []providerkit.Record, err error) {
	last := []byte{0xff} // after every name
	if end := after(req.Prefix); end != nil {
		last = []byte(*end)
	}
	err = m.limited(ctx, func() error {
		return m.named(ctx, m.sql["list"], []any{req.Prefix, req.After, last, req.HeldOnly, limit}, func(r *mysqlRow) { records = append(records, r.Record) })
	})
	return records, err
}

// waiting tells who waits, but for one that has let its turn pass. Whether their processes live is not known.
func (m *mysql) waiting(ctx context.Context, name string) (list []abstractions.Waiting, err error) {
	err = m.limited(ctx, func() error {
		r, err := m.find(ctx, name, "")
		if _, kept := r.kept(); r.ID == "" && r.expires != nil && !kept {
			r.waiters = r.waiters.rest()
		}
		list = r.waiters.list(r.Now, func(string) bool { return true })
		return err
	})
	return list, err
}

func (m *mysql) turns(ctx context.Context, all []turn) (waiters []string, err error) {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	err = m.limited(ctx, func() error {
		rows, err := m.rows(ctx, names)
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
		return err
	})
	return waiters, err
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (m *mysql) dequeue(ctx context.Context, name, waiter string) error {
	return m.limited(ctx, func() error {
		for {
			r, err := m.find(ctx, name, "")
			if err != nil || r.version == 0 {
				return err
			}
			_, kept := r.kept()
			c := r.waiters.leave(waiter, kept)
			if !c.Write {
				return nil
			}
			r.change(&c)
			if ok, err := m.write(ctx, &r, forever, &c); err != nil || ok {
				return err
			}
		}
	})
}

// sweep deletes those of the rows it has looked at that nobody has changed since.
func (m *mysql) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = m.limited(ctx, func() error {
		from := after
		if from == nil {
			from = new(string)
			if err := query(ctx, m.db, m.sql["hand"], nil, func(scan scan) error { return scan(from) }); err != nil {
				return err
			}
		}
		seen, forgotten := 0, []renewed{}
		err := m.named(ctx, m.sql["page"], []any{*from, limit}, func(r *mysqlRow) {
			seen++
			last = r.Name
			r.IdleSince = time.UnixMicro(r.version)
			if r.Forgettable(idle) {
				forgotten = append(forgotten, renewed{Name: r.Name, Version: r.version})
			}
		})
		if seen < limit {
			last = ""
		}
		if err == nil && len(forgotten) > 0 {
			text, _ := json.Marshal(forgotten) // texts and numbers always encode
			var n int64
			n, err = m.run(ctx, m.sql["forget"], string(text))
			deleted = int(n)
		}
		if err == nil && after == nil {
			_, err = m.run(ctx, m.sql["move_hand"], last)
		}
		return err
	})
	return deleted, last, err
}

func (m *mysql) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var args []any
	for i := range entries {
		args = append(args, noteArgs(&entries[i])...)
	}
	return m.limited(ctx, func() error {
		_, err := m.run(ctx, m.sql["notes"]+strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?)", len(entries)-1), args...)
		return err
	})
}

func (m *mysql) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = m.limited(ctx, func() error {
		n, err := m.run(ctx, m.sql["trim"], limit, m.record.retention.Microseconds())
		deleted = int(n)
		return err
	})
	return deleted, err
}

func (m *mysql) version(ctx context.Context) (int, error) {
	return m.tables.installed(ctx, viaSQL{m.db})
}

// migrate holds a lock of the server, so that processes that start together do it one after the other. It goes on where
// one that was interrupted has ended: the table that says the version is the first, and without a version until the last.
func (m *mysql) migrate(ctx context.Context) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	on, locked := viaSQL{conn}, false
	lock := "SELECT coalesce(GET_LOCK(md5(concat('leasing.', DATABASE(), '.', ?)), 5), 0)"
	if err := on.query(ctx, lock, []any{m.tables.table}, func(scan scan) error { return scan(&locked) }); err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("%w: another process is making the tables", abstractions.ErrUnavailable)
	}
	begun, err := m.tables.there(ctx, on, schemaSuffix)
	if err == nil && begun {
		var found int
		if found, err = m.tables.installed(ctx, on); err == nil && found == 0 {
			err = m.create(ctx, on)
		} else if err == nil {
			err = checkVersion(found)
		}
	} else if err == nil {
		err = m.tables.install(ctx, on, m.tables.create)
	}
	if err != nil && m.class(err) == providerkit.Denied {
		err = &SetupError{Role: "of this URL", Statements: m.tables.create, Err: err}
	}
	_ = run(ctx, on, "SELECT RELEASE_LOCK(md5(concat('leasing.', DATABASE(), '.', ?)))", m.tables.table)
	return err
}

func (m *mysql) create(ctx context.Context, on statements) (err error) {
	for _, statement := range m.tables.create {
		err = errors.Join(err, run(ctx, on, statement))
	}
	return err
}
