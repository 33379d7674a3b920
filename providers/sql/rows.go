package sqllease

import (
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// rowStore is what SQLite and MySQL do in the same way: a row is read, the rules and the queue in the row (lineUp) decide, and it is
// written. PostgreSQL does most of that within its statements.
type rowStore struct {
	*store
	in    rowDialect
	clock func() providerkit.HostTime // zero where rows bring the time along
	width int                         // how many of storedRow.columns are read
	*wakeups
}

// rowDialect is what they do in ways of their own.
type rowDialect interface {
	statements // those that only read
	// change makes a change of a row, atomically.
	change(ctx context.Context, name, id string, rule func(*storedRow) providerkit.Change) (applied, error)
	// lives says whether the process behind a waiter's channel may be alive.
	lives(channel string) bool
}

func (s *rowStore) apply(ctx context.Context, op op) (applied, error) {
	done, err := s.in.change(ctx, op.name, op.id, func(r *storedRow) providerkit.Change {
		if op.acquire != nil {
			return s.admit(r, &op)
		}
		return op.rule(&r.Record)
	})
	if op.acquire != nil && err == nil && done.Err == nil && s.Waits() {
		s.Served(waiterOf(op.id))
	}
	return done, err
}

// decide applies a rule to a row, and fills in what is stored of a change. A name that has become free is reserved for the first
// who waits, if anybody does; freed are those who do. Those whose process is gone lose their place.
func (s *rowStore) decide(r *storedRow, rule func(*storedRow) providerkit.Change) (done applied, freed lineUp) {
	done.Change = rule(r)
	done.after = r.Record
	if done.Write && done.Deadline {
		r.ends = providerkit.HostDeadline{}
		if r.ID != "" {
			r.ends = r.at.Deadline(r.Left)
		}
	}
	if !done.Write || !done.Wake {
		return done, ""
	}
	for r.waiters != "" {
		_, channel := r.waiters.head()
		if s.in.lives(channel) {
			break
		}
		r.waiters = r.waiters.rest()
	}
	if r.waiters != "" && r.ID == "" {
		r.ends = r.at.Deadline(waitqueue.Grace)
	}
	return done, r.waiters
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (s *rowStore) dequeue(ctx context.Context, name, waiter string) error {
	_, err := s.in.change(ctx, name, "", func(r *storedRow) providerkit.Change {
		_, kept := r.kept()
		return r.waiters.leave(waiter, kept)
	})
	return err
}

// find reads a row for a request of an ID.
func (s *rowStore) find(ctx context.Context, on statements, name, id string, now providerkit.HostTime) (*storedRow, error) {
	r := &storedRow{at: now}
	r.Name = name
	err := on.query(ctx, s.sql["read"], []any{&r.Name}, func(scan scan) error { return scan(r.columns()[1:s.width]...) })
	r.settle(id)
	return r, err
}

func (s *rowStore) read(ctx context.Context, name string) (providerkit.Record, error) {
	r, err := s.find(ctx, s.in, name, "", s.clock())
	return r.Record, err
}

// eachRow hands over the rows that a statement finds, for no request.
func (s *rowStore) eachRow(ctx context.Context, on statements, now providerkit.HostTime, statement string, args []any, each func(*storedRow)) error {
	return on.query(ctx, statement, args, func(scan scan) error {
		r := &storedRow{at: now}
		err := scan(r.columns()[:s.width]...)
		r.settle("")
		each(r)
		return err
	})
}

// rows reads the rows of those names that there are, some hundred at a time: SQLite bounds the parameters of a statement.
func (s *rowStore) rows(ctx context.Context, on statements, names []any) (map[string]*storedRow, error) {
	found := make(map[string]*storedRow, len(names))
	for some := range slices.Chunk(names, 500) {
		err := s.eachRow(ctx, on, s.clock(), repeated(len(some), s.sql["rows"]), some, func(r *storedRow) { found[r.Name] = r })
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *rowStore) list(ctx context.Context, req abstractions.ListRequest, limit int) (records []providerkit.Record, err error) {
	now, args := s.clock(), []any{req.Prefix, req.After, beyond(req.Prefix), req.HeldOnly, limit}
	if !now.Wall.IsZero() {
		args = append(args, now.Wall.UnixMicro(), now.SinceBoot.Microseconds(), now.Boot)
	}
	err = s.eachRow(ctx, s.in, now, s.sql["list"], args, func(r *storedRow) { records = append(records, r.Record) })
	return records, err
}

// waiting tells who waits, but for one that has let its turn pass, and for those whose process is gone.
func (s *rowStore) waiting(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	r, err := s.find(ctx, s.in, name, "", s.clock())
	if _, kept := r.kept(); r.ID == "" && r.ends.Wall != 0 && !kept {
		r.waiters = r.waiters.rest()
	}
	return r.waiters.list(r.Now, s.in.lives), err
}

// turns finds the waiters whose turn it is, or for whom nobody stands in the way.
func (s *rowStore) turns(ctx context.Context, all []turn) (waiters []string, err error) {
	names := make([]any, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	rows, err := s.rows(ctx, s.in, names)
	for _, w := range all {
		r := rows[w.Name]
		if r == nil { // nobody has it
			r = &storedRow{}
		}
		_, kept := r.kept()
		if head, _ := r.waiters.head(); !r.Held() && (!kept || head == w.ID) {
			waiters = append(waiters, w.ID)
		}
	}
	return waiters, err
}

// sweepPage looks at a page of rows, and hands over those that may be forgotten.
func (s *rowStore) sweepPage(
	ctx context.Context, on statements, after *string, limit int, idle time.Duration, forget func([]*storedRow) (int, error),
) (deleted int, last string, err error) {
	from := after
	if from == nil {
		from = new(string)
		if err := on.query(ctx, s.sql["hand"], nil, func(scan scan) error { return scan(from) }); err != nil {
			return 0, "", err
		}
	}
	seen, old, floor := 0, []*storedRow{}, int64(0)
	err = s.eachRow(ctx, on, s.clock(), s.sql["page"], []any{*from, limit}, func(r *storedRow) {
		seen++
		last = r.Name
		r.IdleSince = time.UnixMicro(r.version)
		if r.Forgettable(idle) {
			old, floor = append(old, r), max(floor, r.Token)
		}
	})
	if seen < limit {
		last = ""
	}
	if err == nil && floor > 0 {
		err = run(ctx, on, s.sql["raise"], floor)
	}
	if err == nil && len(old) > 0 {
		deleted, err = forget(old)
	}
	if err == nil && after == nil {
		err = run(ctx, on, s.sql["move_hand"], last)
	}
	return deleted, last, err
}
