package sqllease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
)

// sqlite is the backend on an SQLite file. Every change is a transaction that
// holds the write lock from its beginning, and reads the clocks when it has it.
type sqlite struct {
	rowStore
	statements // those that only read, beside the writers: in WAL mode a reader waits for nobody
	db         *sqliteDatabase
	// Changes that come at the same time share a transaction, and its sync.
	changes *batch.Batcher[*sqliteChange]
}

// sqliteChange is a change of one row and what came of it.
type sqliteChange struct {
	name, id string
	rule     func(*storedRow) providerkit.Change
	batch.Outcome
	left  atomic.Bool // the caller has left
	done  applied
	freed lineUp // who waits for a name that is free now
}

// change makes a change, in a transaction with others.
func (s *sqlite) change(ctx context.Context, name, id string, rule func(*storedRow) providerkit.Change) (applied, error) {
	c := &sqliteChange{name: name, id: id, rule: rule}
	defer c.left.Store(true)
	if err := s.changes.Do(ctx, c); err != nil { // it may still be under way
		return applied{}, err
	}
	return c.done, c.Err()
}

// applyMany makes changes one after the other, in one transaction, for those who still wait
// for them. If they are refused each is made by itself: what stands in one's way is not the
// others'.
func (s *sqlite) applyMany(ctx context.Context, all []*sqliteChange, _ bool) {
	err := s.db.write(ctx, func(on statements) error {
		now := s.clock()
		for _, c := range all {
			if c.freed = ""; c.left.Load() {
				continue
			}
			if err := s.changeOn(ctx, on, c, now); err != nil {
				return err
			}
		}
		return nil
	})
	alone := err != nil && len(all) > 1 && s.verdict(err).Class != providerkit.Unknown && ctx.Err() == nil
	for i, c := range all {
		if alone {
			s.applyMany(ctx, all[i:i+1], false)
			continue
		}
		if c.Fail(err); err == nil && len(c.freed) > 0 {
			s.tell(c.freed)
		}
	}
}

// changeOn makes a change within a transaction.
func (s *sqlite) changeOn(ctx context.Context, on statements, c *sqliteChange, now providerkit.HostTime) error {
	r, err := s.find(ctx, on, c.name, c.id, now)
	if err == nil && r.Token == 0 {
		err = on.query(ctx, s.sql["floor"], nil, func(scan scan) error { return scan(&r.Floor) })
	}
	if err != nil {
		return err
	}
	if c.done, c.freed = s.decide(r, c.rule); !c.done.Write {
		return nil
	}
	write := s.sql["update"]
	if r.encode() == 0 {
		write = s.sql["insert"]
	}
	if err := run(ctx, on, write, r.columns()[:sqliteColumns]...); err != nil {
		return err
	}
	return s.append(ctx, on, s.record.kept(c.name, &c.done.Change))
}

// renew always waits: the write lock is that of the whole file. Those before it are few, since changes share transactions.
func (s *sqlite) renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	err := s.db.write(ctx, func(on statements) error {
		now := s.clock()
		for i, req := range reqs {
			c := sqliteChange{name: req.Name, id: req.ID, rule: func(r *storedRow) providerkit.Change { return r.Renew(req) }}
			if err := s.changeOn(ctx, on, &c, now); err != nil {
				return err
			}
			results[i] = c.done.renewed(req.TTL)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *sqlite) append(ctx context.Context, on statements, entries []abstractions.NamedEntry) error {
	for _, e := range entries {
		if err := run(ctx, on, s.sql["note"], noteArgs(&e)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlite) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	return s.db.write(ctx, func(on statements) error { return s.append(ctx, on, entries) })
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
	version, err := s.installed(ctx, s)
	if err == nil {
		err = s.db.verifyFile(ctx)
	}
	return version, err
}

// migrate holds the write lock, so that processes that start together do it one after the other.
func (s *sqlite) migrate(ctx context.Context) error {
	return s.db.write(ctx, func(on statements) error { return s.tables.install(ctx, on, s.tables.create) })
}

func (s *sqlite) close() error {
	s.wakeups.Close()
	s.changes.Close()
	return s.db.close()
}

// sqliteTables fills in the statements for one table.
func sqliteTables(table string) tables {
	return newTables("", table, `"`, map[string]string{
		// Columns in the order of storedRow.columns, after the name. A row made by hand may have the version 0, which stands for no row.
		"row": `max(version, 1), token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters,
	boot, boot_us`,
	}, "common", "sqlite")
}

// sqliteColumns is how many of storedRow.columns are read and stored.
const sqliteColumns = 16
