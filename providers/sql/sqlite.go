package sqllease

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
)

// sqlite is the backend on an SQLite file. Every change is a transaction that
// holds the write lock from its beginning, and reads the clocks when it has it.
type sqlite struct {
	db     *sqliteDatabase
	sql    sqliteSQL
	tables *tables
	record recording
	clock  func() providerkit.HostTime
	// Changes that come at the same time share a transaction, and its sync.
	changes *batch.Batcher[*sqliteChange]
	*wakeups
}

// sqliteChange is a change of one row and what came of it.
type sqliteChange struct {
	name, id string
	rule     func(r *sqliteRow, now providerkit.HostTime) providerkit.Change
	batch.Outcome
	left  atomic.Bool // the caller has left
	done  applied
	freed lineUp // who waits for a name that is free now
}

func (s *sqlite) class(err error) providerkit.Class { return sqliteClass(err) }

func (s *sqlite) apply(ctx context.Context, op op) (applied, error) {
	done, err := s.make(ctx, &sqliteChange{name: op.name, id: op.id, rule: func(r *sqliteRow, now providerkit.HostTime) providerkit.Change {
		if op.acquire != nil {
			return s.acquire(r, &op, now)
		}
		return op.rule(&r.Record)
	}})
	if op.acquire != nil && err == nil && done.Err == nil {
		s.served(op.id)
	}
	return done, err
}

// make makes a change, in a transaction with others.
func (s *sqlite) make(ctx context.Context, c *sqliteChange) (applied, error) {
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
			if err := s.change(ctx, on, c, now); err != nil {
				return err
			}
		}
		return nil
	})
	alone := err != nil && len(all) > 1 && s.class(err) != providerkit.Unknown && ctx.Err() == nil
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

// change applies a rule, within a transaction.
func (s *sqlite) change(ctx context.Context, on statements, c *sqliteChange, now providerkit.HostTime) error {
	found, err := s.find(ctx, on, c.name, c.id, now)
	if err != nil {
		return err
	}
	done := applied{Change: c.rule(found, now)}
	done.after = found.Record
	if c.done = done; !done.Write {
		return nil
	}
	if done.Deadline {
		found.ends = providerkit.HostDeadline{}
		if found.ID != "" {
			found.ends = now.Deadline(found.Left)
		}
	}
	if done.Wake {
		c.freed = s.wake(found, now)
	}
	return cmp.Or(s.put(ctx, on, found, now), s.note(ctx, on, c.name, done.Expired), s.note(ctx, on, c.name, done.Note))
}

// put writes a row.
func (s *sqlite) put(ctx context.Context, on statements, r *sqliteRow, now providerkit.HostTime) error {
	write := s.sql.update
	if r.version == 0 {
		write = s.sql.insert
	}
	r.version = max(r.version+1, now.Wall.UnixMicro())
	r.ttl, r.metadata, r.ended, r.acquired = ttlColumn(&r.Record), encodeMetadata(r.Metadata), encodeEnded(r.Ended, r.ended), nil
	if !r.AcquiredAt.IsZero() {
		us := r.AcquiredAt.UnixMicro()
		r.acquired = &us
	}
	return run(ctx, on, write, r.named()...)
}

// renew always waits: the write lock is that of the whole file. Those before it are few, since changes share transactions.
func (s *sqlite) renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	err := s.db.write(ctx, func(on statements) error {
		now := s.clock()
		for i, req := range reqs {
			c := sqliteChange{name: req.Name, id: req.ID, rule: func(r *sqliteRow, _ providerkit.HostTime) providerkit.Change { return r.Renew(req) }}
			if err := s.change(ctx, on, &c, now); err != nil {
				return err
			}
			if results[i].Err = c.done.Err; c.done.Err == nil {
				results[i].Grant = grant(&c.done.after, req.TTL)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *sqlite) find(ctx context.Context, on statements, name, id string, now providerkit.HostTime) (*sqliteRow, error) {
	r := &sqliteRow{}
	r.Name, r.Now = name, now.Wall.UTC()
	err := on.query(ctx, s.sql.read, []any{&r.Name}, func(scan scan) error {
		err := scan(r.columns()...)
		r.settle(now, id)
		return err
	})
	return r, err
}

// note writes an entry of the history, if it is one.
func (s *sqlite) note(ctx context.Context, on statements, name string, e abstractions.HistoryEntry) error {
	if e.Kind == "" || !s.record.changes || e.Kind == abstractions.HistoryRenewed && !s.record.renewals {
		return nil
	}
	return s.append(ctx, on, name, e)
}

func (s *sqlite) append(ctx context.Context, on statements, name string, e abstractions.HistoryEntry) error {
	return run(ctx, on, s.sql.note, name, e.Time.UnixMicro(), string(e.Kind), e.ID, e.Owner, e.Token, e.Actor, e.Reason)
}

func (s *sqlite) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	return s.db.write(ctx, func(on statements) error {
		for _, e := range entries {
			if err := s.append(ctx, on, e.Name, e.HistoryEntry); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlite) read(ctx context.Context, name string) (providerkit.Record, error) {
	r, err := s.find(ctx, s.db, name, "", s.clock())
	return r.Record, err
}

// query runs beside the writers: in WAL mode a reader waits for nobody.
func (s *sqlite) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return s.db.query(ctx, statement, args, each)
}

func (s *sqlite) close() error {
	s.wakeups.Close()
	s.changes.Close()
	return s.db.close()
}

// sqliteRow is a row as it is stored.
type sqliteRow struct {
	row
	ends          providerkit.HostDeadline
	ttl, acquired *int64
	metadata      string
	waiters       lineUp
}

// columns are those of sqliteColumns, in order: where to scan them, and the parameters of statements.
func (r *sqliteRow) columns() []any { return r.named()[1:] }

// named are the columns, the name first.
func (r *sqliteRow) named() []any {
	return []any{
		&r.Name, &r.version, &r.Token, &r.ID, &r.Owner, &r.ttl, &r.metadata, &r.acquired, &r.ends.Wall, &r.ends.Boot, &r.ends.SinceBoot,
		&r.Breaking, &r.BrokenBy, &r.BreakReason, &r.ended, (*string)(&r.waiters),
	}
}

// settle completes the record with what depends on the clocks.
func (r *sqliteRow) settle(now providerkit.HostTime, id string) {
	r.row.settle(r.ttl, r.acquired, r.metadata, id)
	r.Now = now.Wall.UTC()
	if r.ID != "" {
		r.Unsettled = r.ends.OtherBoot(now)
		r.SetLeft(r.ends.Left(now))
	}
}
