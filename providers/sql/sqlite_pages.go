package sqllease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (s *sqlite) list(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error) {
	var records []providerkit.Record
	now := s.clock()
	args := []any{
		req.Prefix, req.After, after(req.Prefix), req.HeldOnly, now.Wall.UnixMicro(), now.SinceBoot.Microseconds(), now.Boot, limit,
	}
	err := s.query(ctx, s.sql.list, args, func(scan scan) error {
		r, err := sqliteNamed(scan, now)
		records = append(records, r.Record)
		return err
	})
	return records, err
}

// sqliteNamed scans a row that begins with the name.
func sqliteNamed(scan scan, now providerkit.HostTime) (r sqliteRow, err error) {
	err = scan(r.named()...)
	r.settle(now, "")
	return r, err
}

func (s *sqlite) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = s.db.write(ctx, func(on statements) error {
		from := after
		if from == nil {
			from = new(string)
			if err := on.query(ctx, s.sql.hand, nil, func(scan scan) error { return scan(from) }); err != nil {
				return err
			}
		}
		if deleted, last, err = s.sweepPage(ctx, on, *from, limit, idle); err != nil || after != nil {
			return err
		}
		return run(ctx, on, s.sql.moveHand, last)
	})
	return deleted, last, err
}

func (s *sqlite) sweepPage(ctx context.Context, on statements, after string, limit int, idle time.Duration) (deleted int, last string, err error) {
	var seen int
	var forgotten []string
	now := s.clock()
	err = on.query(ctx, s.sql.page, []any{after, limit}, func(scan scan) error {
		r, err := sqliteNamed(scan, now)
		seen++
		last = r.Name
		r.IdleSince = time.UnixMicro(r.version)
		if r.Forgettable(idle) {
			forgotten = append(forgotten, r.Name)
		}
		return err
	})
	for _, name := range forgotten {
		err = errors.Join(err, run(ctx, on, s.sql.forget, name))
	}
	if seen < limit {
		last = ""
	}
	return len(forgotten), last, err
}

func (s *sqlite) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = s.db.write(ctx, func(on statements) error {
		before := s.clock().Wall.Add(-s.record.retention).UnixMicro()
		return on.query(ctx, s.sql.trim, []any{limit, before}, func(scan) error {
			deleted++
			return nil
		})
	})
	return deleted, err
}

// version also makes sure that the file is still the one that was opened.
func (s *sqlite) version(ctx context.Context) (int, error) {
	version, err := s.tables.installed(ctx, s.db)
	if err == nil {
		err = s.db.verifyFile(ctx)
	}
	return version, err
}

// migrate holds the write lock, so that processes that start together do it
// one after the other. SQLite compares the names of tables without case.
func (s *sqlite) migrate(ctx context.Context) error {
	err := s.db.write(ctx, func(on statements) error { return s.tables.install(ctx, on, s.tables.create) })
	if err != nil && sqliteClass(err) == providerkit.Denied {
		return &SetupError{Statements: s.tables.create, Err: err}
	}
	return err
}
