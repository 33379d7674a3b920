package sqllease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (s *sqlite) list(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error) {
	now := s.clock()
	return s.listAt(ctx, now, req, limit, now.Wall.UnixMicro(), now.SinceBoot.Microseconds(), now.Boot)
}

func (s *sqlite) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = s.db.write(ctx, func(on statements) (err error) {
		deleted, last, err = s.sweepPage(ctx, on, after, limit, idle, func(old []*storedRow) (int, error) {
			for _, r := range old {
				if err := run(ctx, on, s.sql["forget"], r.Name); err != nil {
					return 0, err
				}
			}
			return len(old), nil
		})
		return err
	})
	return deleted, last, err
}

func (s *sqlite) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = s.db.write(ctx, func(on statements) error {
		before := s.clock().Wall.Add(-s.record.retention).UnixMicro()
		return on.query(ctx, s.sql["trim"], []any{limit, before}, func(scan) error {
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

// migrate holds the write lock, so that processes that start together do it one after the other.
func (s *sqlite) migrate(ctx context.Context) error {
	return s.db.write(ctx, func(on statements) error { return s.tables.install(ctx, on, s.tables.create) })
}
