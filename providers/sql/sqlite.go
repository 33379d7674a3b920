package sqllease

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// sqlite is the backend on an SQLite file. Every change is a transaction that
// holds the write lock from its beginning, and reads the clocks when it has it.
type sqlite struct {
	db     *sqliteDatabase
	sql    sqliteSQL
	naming naming
	record recording
	clock  func() instant
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
}

func (s *sqlite) capabilities() abstractions.Capabilities { return sqliteCapabilities }

func (s *sqlite) meaning(err error) meaning { return sqliteMeaning(err) }

func (s *sqlite) apply(ctx context.Context, op op) (o outcome, err error) {
	err = s.db.write(ctx, false, func(q querier) error {
		now := s.clock()
		before, ends, err := s.find(ctx, q, op.name, now)
		if err != nil {
			return err
		}
		o = outcome{change: op.rule(&before), before: before, after: before}
		if !o.write {
			return nil
		}
		return s.write(ctx, q, &o, ends, now)
	})
	return o, err
}

func (s *sqlite) find(ctx context.Context, q querier, name string, now instant) (row, deadline, error) {
	r := sqliteFound{row: row{name: name}}
	err := q.query(ctx, s.sql.read, []any{name}, func(scan scan) error { return scan(r.columns()...) })
	r.settle(now)
	return r.row, r.deadline, err
}

// write writes the change; ends is the deadline so far.
func (s *sqlite) write(ctx context.Context, q querier, o *outcome, ends deadline, now instant) error {
	to := &o.change
	after := to.row
	after.version = max(o.before.version+1, now.wall.UnixMicro())
	if to.newToken {
		after.token, after.acquiredAt = abstractions.NextToken(o.before.token, now.wall), now.wall.UTC()
	}
	switch to.expiry {
	case expireNever:
		ends = deadline{}
	case expireIn:
		ends = deadlineIn(now, to.in)
	}
	after.now, after.unsettled = now.wall.UTC(), false
	after.setLeft(ends.left(now))
	after.ends = ends.shown(now)
	o.after = after
	args := []any{
		after.name, after.version, after.token, after.id, after.owner, micros(after.ttl), after.metadata,
		unixMicro(after.acquiredAt), ends.wall, ends.boot, ends.sinceBoot, number(after.breaking), after.ended.String(),
	}
	if err := run(ctx, q, s.sql.write, args...); err != nil {
		return err
	}
	return s.note(ctx, q, o)
}

func (s *sqlite) note(ctx context.Context, q querier, o *outcome) error {
	expired, kind, id, owner := s.record.of(o)
	if expired {
		b := &o.before
		at := b.now.Add(b.left).UnixMicro()
		if err := run(ctx, q, s.sql.note, b.name, at, string(abstractions.HistoryExpired), b.id, b.owner, b.token); err != nil {
			return err
		}
	}
	if kind == "" {
		return nil
	}
	return run(ctx, q, s.sql.note, o.after.name, o.after.now.UnixMicro(), kind, id, owner, o.after.token)
}

// renew always waits: the write lock is that of the whole file.
func (s *sqlite) renew(ctx context.Context, reqs []abstractions.RenewRequest, _ bool) ([]verdict, error) {
	var items strings.Builder
	encoder := json.NewEncoder(&items)
	list := make([][4]any, len(reqs))
	index := make(map[string]int, len(reqs))
	for i, req := range reqs {
		list[i] = [4]any{req.Name, req.ID, req.Token, micros(req.TTL)}
		index[req.Name] = i
	}
	if err := encoder.Encode(list); err != nil {
		return nil, err
	}
	verdicts := make([]verdict, len(reqs))
	err := s.db.write(ctx, true, func(q querier) error {
		now := s.clock()
		args := []any{
			items.String(), now.wall.UnixMicro(), now.sinceBoot.Microseconds(), now.boot,
			ceilMicro(now.wall), *micros(now.sinceBoot),
		}
		err := q.query(ctx, s.sql.renew, args, func(scan scan) error {
			var name string
			if err := scan(&name); err != nil {
				return err
			}
			verdicts[index[name]] = s.renewed(reqs[index[name]], now)
			return nil
		})
		if err != nil {
			return err
		}
		return s.settle(ctx, q, reqs, verdicts, now)
	})
	return verdicts, err
}

func (s *sqlite) renewed(req abstractions.RenewRequest, now instant) verdict {
	v := verdict{renewed: true, known: true}
	v.name, v.id, v.token, v.ttl, v.left = req.Name, req.ID, req.Token, req.TTL, req.TTL
	v.now = now.wall.UTC()
	v.ends = deadlineIn(now, req.TTL).shown(now)
	return v
}

// settle reads what stood in the way of those that were not renewed, and
// records the others.
func (s *sqlite) settle(ctx context.Context, q querier, reqs []abstractions.RenewRequest, verdicts []verdict, now instant) error {
	for i, req := range reqs {
		v := &verdicts[i]
		if v.renewed && !s.record.renewals {
			continue
		}
		found, _, err := s.find(ctx, q, req.Name, now)
		if err != nil {
			return err
		}
		if !v.renewed {
			v.row, v.known = found, true
			continue
		}
		if err := run(ctx, q, s.sql.note, req.Name, now.wall.UnixMicro(), string(abstractions.HistoryRenewed), found.id, found.owner, found.token); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlite) read(ctx context.Context, name string) (row, error) {
	r := sqliteFound{row: row{name: name}}
	err := s.db.read(ctx, s.sql.read, []any{name}, func(scan scan) error { return scan(r.columns()...) })
	r.settle(s.clock())
	return r.row, err
}

// ping reads from the file, so that it notices that the file is gone or broken.
func (s *sqlite) ping(ctx context.Context) error {
	return s.db.read(ctx, s.sql.version, nil, func(scan scan) error {
		var version int
		return scan(&version)
	})
}

func (s *sqlite) close() error { return s.db.close() }

// sqliteFound is a row as it is stored.
type sqliteFound struct {
	row
	ttlMicros, acquired *int64
	deadline            deadline
	stopped             string // row.ended
}

// columns are those of sqliteRow, in order.
func (r *sqliteFound) columns() []any {
	return []any{
		&r.version, &r.token, &r.id, &r.owner, &r.ttlMicros, &r.metadata, &r.acquired, &r.deadline.wall, &r.deadline.boot, &r.deadline.sinceBoot,
		&r.breaking, &r.stopped,
	}
}

// settle completes the row with what depends on the clocks.
func (r *sqliteFound) settle(now instant) {
	r.now = now.wall.UTC()
	r.ttl = fromMicros(r.ttlMicros)
	r.row.ended = parseEnded(r.stopped)
	if r.acquired != nil {
		r.acquiredAt = time.UnixMicro(*r.acquired).UTC()
	}
	r.unsettled = r.deadline.wall != nil && r.deadline.otherBoot(now)
	r.setLeft(r.deadline.left(now))
	r.ends = r.deadline.shown(now)
}

func unixMicro(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
