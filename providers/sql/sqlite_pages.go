package sqllease

import (
	"context"
	"errors"
	"time"
)

func (s *sqlite) list(ctx context.Context, q listQuery) ([]row, error) {
	var rows []row
	var end *string
	if bound, bounded := after(q.prefix); bounded {
		end = &bound
	}
	now := s.clock()
	args := []any{
		q.prefix, q.after, end, number(q.heldOnly), now.wall.UnixMicro(), now.sinceBoot.Microseconds(), now.boot, q.limit,
	}
	err := s.db.read(ctx, s.sql.list, args, func(scan scan) error {
		var r sqliteFound
		if err := scan(append([]any{&r.name}, r.columns()...)...); err != nil {
			return err
		}
		r.settle(now)
		rows = append(rows, r.row)
		return nil
	})
	return rows, err
}

func (s *sqlite) history(ctx context.Context, q historyQuery) ([]event, error) {
	var events []event
	err := s.db.read(ctx, s.sql.history, []any{q.name, q.after, q.limit}, func(scan scan) error {
		var e event
		var at int64
		if err := scan(&e.seq, &at, (*string)(&e.Kind), &e.ID, &e.Owner, &e.Token); err != nil {
			return err
		}
		e.Time = time.UnixMicro(at).UTC()
		events = append(events, e)
		return nil
	})
	return events, err
}

func (s *sqlite) sweep(ctx context.Context, after string, limit int, idle time.Duration) (swept, error) {
	var done swept
	err := s.db.write(ctx, false, func(q querier) error {
		var seen int
		var forgotten []string
		now := s.clock()
		err := q.query(ctx, s.sql.page, []any{after, limit}, func(scan scan) error {
			var r sqliteFound
			if err := scan(append([]any{&r.name}, r.columns()...)...); err != nil {
				return err
			}
			r.settle(now)
			seen++
			done.last = r.name
			if r.forgettable(idle) {
				forgotten = append(forgotten, r.name)
			}
			return nil
		})
		for _, name := range forgotten {
			err = errors.Join(err, run(ctx, q, s.sql.forget, name))
		}
		if seen < limit {
			done.last = ""
		}
		done.deleted = len(forgotten)
		return err
	})
	return done, err
}

// forgettable reports whether the name is free, has been idle for so long, and
// the clock has passed its token.
func (r *row) forgettable(idle time.Duration) bool {
	clock := r.now.UnixMicro()
	return (r.id == "" || r.left <= -idle) && r.version <= clock-idle.Microseconds() && r.token < clock
}

func (s *sqlite) sweepHistory(ctx context.Context, limit int, age time.Duration) (deleted int, err error) {
	err = s.db.write(ctx, false, func(q querier) error {
		before := s.clock().wall.Add(-age).UnixMicro()
		return q.query(ctx, s.sql.sweepHistory, []any{limit, before}, func(scan) error {
			deleted++
			return nil
		})
	})
	return deleted, err
}

func (s *sqlite) statements() []string { return s.sql.create }

func (s *sqlite) version(ctx context.Context) (int, error) {
	return s.versionBy(ctx, databaseReader{s.db})
}

func (s *sqlite) versionBy(ctx context.Context, q querier) (version int, err error) {
	var tables int
	err = q.query(ctx, s.sql.exists, []any{s.naming.table + schemaSuffix}, func(scan scan) error { return scan(&tables) })
	if err != nil || tables == 0 {
		return 0, err
	}
	err = q.query(ctx, s.sql.version, nil, func(scan scan) error { return scan(&version) })
	return version, err
}

// migrate holds the write lock, so that processes that start together do it
// one after the other.
func (s *sqlite) migrate(ctx context.Context) error {
	err := s.db.write(ctx, false, func(q querier) error {
		found, err := s.versionBy(ctx, q)
		if err != nil || found >= schemaVersion {
			return errors.Join(err, checkNotNewer(found))
		}
		for _, statement := range s.sql.create {
			if err := run(ctx, q, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && sqliteMeaning(err) == denied {
		return &SetupError{Statements: s.sql.create, Err: err}
	}
	return err
}

// databaseReader is a database as a querier that only reads.
type databaseReader struct{ db *sqliteDatabase }

func (r databaseReader) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return r.db.read(ctx, statement, args, each)
}
