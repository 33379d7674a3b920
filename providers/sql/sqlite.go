package sqllease

import (
	"bytes"
	"cmp"
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
	db     *sqliteDatabase
	sql    sqliteSQL
	tables *tables
	record recording
	clock  func() providerkit.HostTime
	// Changes that come at the same time share a transaction, and its sync.
	changes *batch.Batcher[*sqliteChange]
	waiters *sqliteWaiters
	freed   []lineUp // of names that became free in the transaction under way; guarded by its lock
}

// sqliteChange is an op and what came of it.
type sqliteChange struct {
	op
	batch.Outcome
	left atomic.Bool // the caller has left
	done applied
}

// maxTTL keeps deadlines within what both databases and Go can count.
const maxTTL = 100 * 365 * 24 * time.Hour

var sqliteCapabilities = abstractions.Capabilities{
	Provider:       "sqlite",
	MinTTL:         100 * time.Millisecond,
	MaxTTL:         maxTTL,
	Granularity:    time.Microsecond,
	Infinite:       true,
	Clock:          "the host's clock",
	Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
	RemainingKnown: true,
	Queues:         true,
}

func (s *sqlite) class(err error) providerkit.Class { return sqliteClass(err) }

func (s *sqlite) apply(ctx context.Context, op op) (applied, error) {
	if done, err := s.stillWaits(ctx, &op); err != nil || done.Err != nil {
		return done, err
	}
	c := &sqliteChange{op: op}
	defer c.left.Store(true)
	if err := s.changes.Do(ctx, c); err != nil {
		return applied{}, err
	}
	if op.acquire != nil && c.Err() == nil && c.done.Err == nil {
		s.waiters.served(op.id)
	}
	return c.done, c.Err()
}

// applyMany makes changes one after the other, in one transaction, for those who still wait
// for them. If they are refused each is made by itself: what stands in one's way is not the
// others'.
func (s *sqlite) applyMany(ctx context.Context, all []*sqliteChange) {
	if ctx.Done() == nil { // a worker's
		var cancel context.CancelFunc
		ctx, cancel = timed(ctx)
		defer cancel()
	}
	err := s.write(ctx, false, func(on statements) (err error) {
		now := s.clock()
		for _, c := range all {
			if c.left.Load() {
				continue
			}
			if c.done, err = s.change(ctx, on, &c.op, now); err != nil {
				return err
			}
		}
		return nil
	})
	alone := err != nil && len(all) > 1 && s.class(err) != providerkit.Unknown && ctx.Err() == nil
	for i, c := range all {
		if alone {
			s.applyMany(ctx, all[i:i+1])
		} else {
			c.Fail(err)
		}
	}
}

// change applies a rule, within a transaction.
func (s *sqlite) change(ctx context.Context, on statements, op *op, now providerkit.HostTime) (applied, error) {
	found, err := s.find(ctx, on, op.name, op.id, now)
	if err != nil {
		return applied{}, err
	}
	var done applied
	if op.acquire != nil {
		done.Change = s.acquire(&found, op, now)
	} else {
		done.Change = op.rule(&found.Record)
	}
	if done.after = found.Record; !done.Write {
		return done, nil
	}
	if done.Deadline {
		found.ends = providerkit.HostDeadline{}
		if found.ID != "" {
			found.ends = now.Deadline(found.Left)
		}
	}
	if done.Wake {
		s.wake(&found, now)
	}
	if err := s.put(ctx, on, &found, now); err != nil {
		return applied{}, err
	}
	return done, cmp.Or(s.note(ctx, on, op.name, done.Expired), s.note(ctx, on, op.name, done.Note))
}

// put writes a row.
func (s *sqlite) put(ctx context.Context, on statements, r *sqliteRow, now providerkit.HostTime) error {
	write := s.sql.update
	if r.version == 0 {
		write = s.sql.insert
	}
	r.version = max(r.version+1, now.Wall.UnixMicro())
	return run(ctx, on, write, r.values()...)
}

// renew always waits: the write lock is that of the whole file.
func (s *sqlite) renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	err := s.db.write(ctx, true, func(on statements) error {
		now := s.clock()
		for i, req := range reqs {
			op := op{name: req.Name, id: req.ID, rule: func(r *providerkit.Record) providerkit.Change { return r.Renew(req) }}
			done, err := s.change(ctx, on, &op, now)
			if err != nil {
				return err
			}
			results[i] = abstractions.RenewResult{Err: done.Err}
			if done.Err == nil {
				results[i].Grant = grant(&done.after, req.TTL)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *sqlite) find(ctx context.Context, on statements, name, id string, now providerkit.HostTime) (sqliteRow, error) {
	var r sqliteRow
	r.Name = name
	err := on.query(ctx, s.sql.read, []any{name}, func(scan scan) error {
		err := scan(r.columns()...)
		r.settle(now, id)
		return err
	})
	r.Now = now.Wall.UTC()
	return r, err
}

// note writes an entry of the history, if it is one.
func (s *sqlite) note(ctx context.Context, on statements, name string, e abstractions.HistoryEntry) error {
	if e.Kind == "" || !s.record.changes || e.Kind == abstractions.HistoryRenewed && !s.record.renewals {
		return nil
	}
	return run(ctx, on, s.sql.note, name, e.Time.UnixMicro(), string(e.Kind), e.ID, e.Owner, e.Token, e.Actor, e.Reason)
}

func (s *sqlite) read(ctx context.Context, name string) (providerkit.Record, error) {
	r, err := s.find(ctx, s.db, name, "", s.clock())
	return r.Record, err
}

// query runs beside the writers: in WAL mode a reader waits for nobody.
func (s *sqlite) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return s.db.query(ctx, statement, args, each)
}

func (s *sqlite) wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return s.waiters.wait(ctx, req)
}

func (s *sqlite) close() error {
	s.waiters.Close()
	s.changes.Close()
	return s.db.close()
}

// sqliteRow is a row as it is stored.
type sqliteRow struct {
	row
	ends          providerkit.HostDeadline
	ttl, acquired *int64
	metadata      string
	ended         []byte
	waiters       lineUp
}

// columns are those of sqliteColumns, in order.
func (r *sqliteRow) columns() []any {
	return []any{
		&r.version, &r.Token, &r.ID, &r.Owner, &r.ttl, &r.metadata, &r.acquired, &r.ends.Wall, &r.ends.Boot, &r.ends.SinceBoot,
		&r.Breaking, &r.BrokenBy, &r.BreakReason, &r.ended, (*[]byte)(&r.waiters),
	}
}

// settle completes the record with what depends on the clocks.
func (r *sqliteRow) settle(now providerkit.HostTime, id string) {
	r.waiters = bytes.Clone(r.waiters)
	r.row.settle(r.ttl, r.acquired, r.metadata, r.ended, id)
	r.Now = now.Wall.UTC()
	if r.ID != "" {
		r.Unsettled = r.ends.OtherBoot(now)
		r.SetLeft(r.ends.Left(now))
	}
}

// values are the parameters of sqliteSQL.insert and update.
func (r *sqliteRow) values() []any {
	var acquired *int64
	if !r.AcquiredAt.IsZero() {
		us := r.AcquiredAt.UnixMicro()
		acquired = &us
	}
	return []any{
		r.Name, r.version, r.Token, r.ID, r.Owner, ttlColumn(&r.Record), encodeMetadata(r.Metadata), acquired, r.ends.Wall, r.ends.Boot, r.ends.SinceBoot,
		r.Breaking, r.BrokenBy, r.BreakReason, encodeEnded(r.Ended), append([]byte{}, r.waiters...),
	}
}
