package sqlitelease

import (
	"context"
	"embed"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// sqlite is the backend on an SQLite file. Every change is a transaction that
// holds the write lock from its beginning, and reads the clocks under that lock.
type sqlite struct {
	*dialect.RowStore
	dialect.Statements // for reads, concurrent with writes: in WAL mode a reader does not wait for a writer
	pipes
	// Concurrent changes share a transaction, and its sync.
	changes *batch.Batcher[*sqliteChange]
}

// sqliteChange is a change of one row, and its outcome.
type sqliteChange struct {
	name, id string
	rule     func(*dialect.Row) providerkit.Change
	batch.Outcome
	left  atomic.Bool // the caller no longer waits
	done  dialect.Applied
	freed dialect.WaitList // the waiters of a name that the change has freed
}

// Change makes a change, in a transaction with others.
func (s *sqlite) Change(ctx context.Context, name, id string, rule func(*dialect.Row) providerkit.Change) (dialect.Applied, error) {
	c := &sqliteChange{name: name, id: id, rule: rule}
	defer c.left.Store(true)
	if err := s.changes.Do(ctx, c); err != nil { // c may still be in flight
		return dialect.Applied{}, err
	}
	return c.done, c.Err()
}

// applyMany makes changes one after the other, in one transaction, for callers that still wait for their
// answers. If the transaction is refused, each change runs alone, since any one of them may have caused
// the refusal.
func (s *sqlite) applyMany(ctx context.Context, all []*sqliteChange, _ bool) {
	err := s.db.write(ctx, func(on dialect.Statements) error {
		now := s.Clock()
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
	alone := err != nil && len(all) > 1 && s.Verdict(err).Class != providerkit.Unknown && ctx.Err() == nil
	for i, c := range all {
		if alone {
			s.applyMany(ctx, all[i:i+1], false)
			continue
		}
		if c.Fail(err); err == nil && len(c.freed) > 0 {
			s.wake(c.freed)
		}
	}
}

// changeOn makes a change within a transaction.
func (s *sqlite) changeOn(ctx context.Context, on dialect.Statements, c *sqliteChange, now hostclock.Time) error {
	r, err := s.Find(ctx, on, c.name, c.id, now)
	if err == nil && r.Token == 0 {
		err = on.Query(ctx, s.SQL["floor"], nil, func(scan dialect.Scan) error { return scan(&r.Floor) })
	}
	if err != nil {
		return err
	}
	if c.done, c.freed = s.Decide(r, c.rule); !c.done.Write {
		return nil
	}
	write := s.SQL["update"]
	if r.Encode() == 0 {
		write = s.SQL["insert"]
	}
	if err := dialect.Run(ctx, on, write, r.Columns()[:sqliteColumns]...); err != nil {
		return err
	}
	return s.append(ctx, on, s.Record.Kept(c.name, &c.done.Change))
}

// Renew always waits, since the write lock covers the whole file. Few writers are ahead of a renewal,
// because changes share transactions.
func (s *sqlite) Renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	err := s.db.write(ctx, func(on dialect.Statements) error {
		now := s.Clock()
		for i, req := range reqs {
			c := sqliteChange{name: req.Name, id: req.ID, rule: func(r *dialect.Row) providerkit.Change { return r.Renew(req) }}
			if err := s.changeOn(ctx, on, &c, now); err != nil {
				return err
			}
			results[i] = c.done.Renewed(req.TTL)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *sqlite) append(ctx context.Context, on dialect.Statements, entries []abstractions.NamedEntry) error {
	for _, e := range entries {
		if err := dialect.Run(ctx, on, s.SQL["note"], dialect.NoteArgs(&e)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlite) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	return s.db.write(ctx, func(on dialect.Statements) error { return s.append(ctx, on, entries) })
}

func (s *sqlite) Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = s.db.write(ctx, func(on dialect.Statements) (err error) {
		deleted, last, err = s.SweepPage(ctx, on, after, limit, idle, func(old []*dialect.Row) (int, error) {
			for _, r := range old {
				if err := dialect.Run(ctx, on, s.SQL["forget"], r.Name); err != nil {
					return 0, err
				}
			}
			return len(old), nil
		})
		return err
	})
	return deleted, last, err
}

func (s *sqlite) SweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = s.db.write(ctx, func(on dialect.Statements) error {
		before := s.Clock().Wall.Add(-s.Record.Retention).UnixMicro()
		return on.Query(ctx, s.SQL["trim"], []any{limit, before}, func(dialect.Scan) error {
			deleted++
			return nil
		})
	})
	return deleted, err
}

// Version also checks that the file is still the one that was opened.
func (s *sqlite) Version(ctx context.Context) (int, error) {
	version, err := s.Installed(ctx, s)
	if err == nil {
		err = s.db.verifyFile(ctx)
	}
	return version, err
}

// Migrate holds the write lock, so that processes that start together migrate one after the other.
func (s *sqlite) Migrate(ctx context.Context) error {
	return s.db.write(ctx, func(on dialect.Statements) error { return s.Tables.Install(ctx, on, s.Tables.Create) })
}

func (s *sqlite) Close() error {
	s.Wakeups.Close()
	s.changes.Close()
	return s.db.close()
}

func (*sqlite) Verdict(err error) sqlkit.Verdict { return sqlkit.SQLite(err) }

// files has the statements that only this dialect uses.
//
//go:embed statements/*.sql
var files embed.FS

// sqliteTables fills in the statements for one table.
func sqliteTables(table string) dialect.Tables {
	return dialect.NewTables("", table, `"`, map[string]string{
		// Columns in the order of Row.Columns, after the name. A row made by hand may have the version 0, which stands for no row.
		"row": `max(version, 1), token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters,
	boot, boot_us`,
	}, dialect.RowStatements, files)
}

// sqliteColumns is the number of Row.Columns that are read and stored.
const sqliteColumns = 16
