package sqllease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (s *sqlite) list(ctx context.Context, q listQuery) ([]providerkit.Record, error) {
	var records []providerkit.Record
	var end *string
	if bound, bounded := after(q.prefix); bounded {
		end = &bound
	}
	now := s.clock()
	args := []any{
		q.prefix, q.after, end, number(q.heldOnly), now.Wall.UnixMicro(), now.SinceBoot.Microseconds(), now.Boot, q.limit,
	}
	err := s.db.read(ctx, s.sql.list, args, func(scan scan) error {
		r, err := sqliteNamed(scan, now)
		records = append(records, r.Record)
		return err
	})
	return records, err
}

// sqliteNamed scans a row that begins with the name.
func sqliteNamed(scan scan, now providerkit.HostTime) (r sqliteRow, err error) {
	err = scan(append([]any{&r.Name}, r.columns()...)...)
	r.settle(now)
	return r, err
}

func (s *sqlite) history(ctx context.Context, q historyQuery) ([]event, error) {
	return readHistory(ctx, databaseReader{s.db}, s.sql.history, q)
}

// readHistory runs a statement that is the same in both dialects.
func readHistory(ctx context.Context, on querier, statement string, q historyQuery) ([]event, error) {
	var events []event
	err := on.query(ctx, statement, []any{q.name, q.after, q.limit}, func(scan scan) error {
		var e event
		var at int64
		err := scan(&e.seq, &at, (*string)(&e.Kind), &e.ID, &e.Owner, &e.Token, &e.Actor, &e.Reason)
		e.Time = time.UnixMicro(at).UTC()
		events = append(events, e)
		return err
	})
	return events, err
}

func (s *sqlite) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (done swept, err error) {
	err = s.db.write(ctx, false, func(q querier) error {
		from := after
		if from == nil {
			from = new(string)
			if err := q.query(ctx, s.sql.hand, nil, func(scan scan) error { return scan(from) }); err != nil {
				return err
			}
		}
		if done, err = s.sweepPage(ctx, q, *from, limit, idle); err != nil || after != nil {
			return err
		}
		return run(ctx, q, s.sql.moveHand, done.last)
	})
	return done, err
}

func (s *sqlite) sweepPage(ctx context.Context, q querier, after string, limit int, idle time.Duration) (swept, error) {
	var done swept
	var seen int
	var forgotten []string
	now := s.clock()
	err := q.query(ctx, s.sql.page, []any{after, limit}, func(scan scan) error {
		r, err := sqliteNamed(scan, now)
		seen++
		done.last = r.Name
		r.IdleSince = time.UnixMicro(r.version)
		if r.Forgettable(idle) {
			forgotten = append(forgotten, r.Name)
		}
		return err
	})
	for _, name := range forgotten {
		err = errors.Join(err, run(ctx, q, s.sql.forget, name))
	}
	if seen < limit {
		done.last = ""
	}
	done.deleted = len(forgotten)
	return done, err
}

func (s *sqlite) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = s.db.write(ctx, false, func(q querier) error {
		deleted, err = s.trim(ctx, q, limit)
		return err
	})
	return deleted, err
}

// trim deletes entries of the history that are too old, within a transaction.
func (s *sqlite) trim(ctx context.Context, q querier, limit int) (deleted int, err error) {
	before := s.clock().Wall.Add(-s.record.retention).UnixMicro()
	err = q.query(ctx, s.sql.trim, []any{limit, before}, func(scan) error {
		deleted++
		return nil
	})
	return deleted, err
}

func (s *sqlite) statements() []string { return s.sql.create }

// version also makes sure that the file is still the one that was opened.
func (s *sqlite) version(ctx context.Context) (int, error) {
	version, err := s.versionBy(ctx, databaseReader{s.db})
	if err == nil {
		err = s.db.verifyFile(ctx)
	}
	return version, err
}

func (s *sqlite) versionBy(ctx context.Context, q querier) (version int, err error) {
	tables, err := s.tables(ctx, q, s.naming.table+schemaSuffix)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = q.query(ctx, s.sql.version, nil, func(scan scan) error { return scan(&version) })
	return version, err
}

// tables counts the tables and views of a name, which SQLite compares without case.
func (s *sqlite) tables(ctx context.Context, q querier, name string) (n int, err error) {
	err = q.query(ctx, s.sql.exists, []any{name}, func(scan scan) error { return scan(&n) })
	return n, err
}

// migrate holds the write lock, so that processes that start together do it
// one after the other.
func (s *sqlite) migrate(ctx context.Context) error {
	err := s.db.write(ctx, false, func(q querier) error {
		found, err := s.versionBy(ctx, q)
		if err != nil || found != 0 {
			return errors.Join(err, checkVersion(found))
		}
		for _, suffix := range []string{"", historySuffix} {
			if n, err := s.tables(ctx, q, s.naming.table+suffix); err != nil || n > 0 {
				return errors.Join(err, errForeign(s.naming.table+suffix))
			}
		}
		for _, statement := range s.sql.create {
			if err := run(ctx, q, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && sqliteClass(err) == providerkit.Denied {
		return &SetupError{Statements: s.sql.create, Err: err}
	}
	return err
}

// databaseReader is a database as a querier that only reads.
type databaseReader struct{ db *sqliteDatabase }

func (r databaseReader) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return r.db.read(ctx, statement, args, each)
}
