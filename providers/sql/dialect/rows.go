package dialect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
)

// RowStore serves the requests that SQLite, MySQL and SQL Server serve in the same way. A row is read, the rules and the
// queue in the row ([WaitList]) decide, and the row is written. PostgreSQL does most of this work within its statements.
type RowStore struct {
	*Store
	in    RowDialect
	Clock func() hostclock.Time // returns zero where rows contain the time
	width int                   // number of Row.Columns that are read
	*Wakeups
}

// NewRowStore returns the row store of a dialect. clock returns zero if the dialect's rows contain the time. columns is the
// number of [Row.Columns] in a row. listen is for [NewWakeups].
func NewRowStore(
	s *Store, in RowDialect, clock func() hostclock.Time, columns int, listen func(context.Context, *Wakeups) (wakeup.Connection, error),
) *RowStore {
	r := &RowStore{Store: s, in: in, Clock: clock, width: columns}
	r.Wakeups = NewWakeups(r, listen)
	return r
}

// RowDialect is the part of a [RowStore] that differs between dialects.
type RowDialect interface {
	Statements // that only read
	// Change makes a change of a row, atomically.
	Change(ctx context.Context, name, id string, rule func(*Row) providerkit.Change) (Applied, error)
	// Lives reports whether the process behind a waiter's channel may be alive.
	Lives(channel string) bool
}

func (s *RowStore) Apply(ctx context.Context, op Op) (Applied, error) {
	done, err := s.in.Change(ctx, op.Name, op.ID, func(r *Row) providerkit.Change {
		if op.Acquire != nil {
			return s.admit(r, &op)
		}
		return op.Rule(&r.Record)
	})
	if op.Acquire != nil && err == nil && done.Err == nil && s.Waits() {
		s.Served(WaiterOf(op.ID))
	}
	return done, err
}

// admit applies the rule of an acquire, but refuses the claim while the name is reserved for another claim. A waiting
// claim joins the queue when it is refused, and leaves the queue when it acquires the name. At that time a first
// waiter that has missed its turn also leaves the queue.
func (w *Wakeups) admit(r *Row, op *Op) providerkit.Change {
	free, before := r.ID == "", r.Record
	waiter := WaiterOf(op.ID)
	head, _ := r.waiters.Head()
	left, reserved := r.reservation()
	c := op.Rule(&r.Record)
	if c.Write && reserved && head != waiter {
		r.Record = before
		c = providerkit.Change{Err: &abstractions.HeldError{Holder: r.Show(), RetryAfter: left}}
	}
	switch {
	case c.Err == nil && c.Write && len(r.waiters) > 0 && r.Token != before.Token:
		if free && head != waiter {
			r.waiters = r.waiters.Rest()
		}
		r.waiters, _ = r.waiters.Without(waiter)
	case errors.Is(c.Err, abstractions.ErrHeld):
		channel := w.ChannelOf(op.ID)
		if channel == nil {
			break
		}
		if _, was := r.waiters.Without(waiter); !was && r.waiters.Len() < MostWaiters {
			r.waiters += WaitList(fmt.Sprintf("%s %x %d %s %s\n", waiter, channel, r.Now.UnixMicro(), op.ID, op.Acquire.Owner))
			c.Write = true
		}
	}
	return c
}

// Decide applies a rule to a row, and fills in the columns of the change. A name that has become free is reserved for its first
// waiter, and its queue is returned as freed. Waiters whose process is gone lose their places.
func (s *RowStore) Decide(r *Row, rule func(*Row) providerkit.Change) (done Applied, freed WaitList) {
	done.Change = rule(r)
	done.After = r.Record
	if done.Write && done.Deadline {
		r.Ends = hostclock.Deadline{}
		if r.ID != "" {
			r.Ends = r.At.Deadline(r.Left)
		}
	}
	if !done.Write || !done.Wake {
		return done, ""
	}
	for r.waiters != "" {
		_, channel := r.waiters.Head()
		if s.in.Lives(channel) {
			break
		}
		r.waiters = r.waiters.Rest()
	}
	if r.waiters != "" && r.ID == "" {
		r.Ends = r.At.Deadline(waitqueue.Grace)
	}
	return done, r.waiters
}

// Dequeue removes a claim from a name's queue. If it was the claim's turn, the turn passes to the next waiter.
func (s *RowStore) Dequeue(ctx context.Context, name, waiter string) error {
	_, err := s.in.Change(ctx, name, "", func(r *Row) providerkit.Change {
		_, reserved := r.reservation()
		return r.waiters.leave(waiter, reserved)
	})
	return err
}

// Find reads a row for a request with an ID.
func (s *RowStore) Find(ctx context.Context, on Statements, name, id string, now hostclock.Time) (*Row, error) {
	r := &Row{At: now}
	r.Name = name
	err := on.Query(ctx, s.SQL["read"], []any{&r.Name}, func(scan Scan) error { return scan(r.Columns()[1:s.width]...) })
	r.Settle(id)
	return r, err
}

func (s *RowStore) Read(ctx context.Context, name string) (providerkit.Record, error) {
	r, err := s.Find(ctx, s.in, name, "", s.Clock())
	return r.Record, err
}

// eachRow runs a statement, and passes each row that it finds to the function each.
func (s *RowStore) eachRow(ctx context.Context, on Statements, now hostclock.Time, statement string, args []any, each func(*Row)) error {
	return on.Query(ctx, statement, args, func(scan Scan) error {
		r := &Row{At: now}
		err := scan(r.Columns()[:s.width]...)
		r.Settle("")
		each(r)
		return err
	})
}

// Rows reads the existing rows of some names, at most 500 at a time: SQLite bounds the parameters of a statement.
func (s *RowStore) Rows(ctx context.Context, on Statements, names []any) (map[string]*Row, error) {
	found := make(map[string]*Row, len(names))
	for some := range slices.Chunk(names, 500) {
		err := s.eachRow(ctx, on, s.Clock(), Repeated(len(some), s.SQL["rows"]), some, func(r *Row) { found[r.Name] = r })
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *RowStore) List(ctx context.Context, req abstractions.ListRequest, limit int) (records []providerkit.Record, err error) {
	now, args := s.Clock(), []any{req.Prefix, req.After, Beyond(req.Prefix), req.HeldOnly, limit}
	if !now.Wall.IsZero() {
		args = append(args, now.Wall.UnixMicro(), now.SinceBoot.Microseconds(), now.Boot)
	}
	err = s.eachRow(ctx, s.in, now, s.SQL["list"], args, func(r *Row) { records = append(records, r.Record) })
	return records, err
}

// Waiting lists the waiters. It leaves out a first waiter that has missed its turn, and waiters whose process is gone.
func (s *RowStore) Waiting(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	r, err := s.Find(ctx, s.in, name, "", s.Clock())
	if _, reserved := r.reservation(); r.ID == "" && r.Ends.Wall != 0 && !reserved {
		r.waiters = r.waiters.Rest()
	}
	return r.waiters.list(r.Now, s.in.Lives), err
}

// Turns returns the waiters whose turn it is, and the waiters whose name is free and not reserved.
func (s *RowStore) Turns(ctx context.Context, all []Turn) (waiters []string, err error) {
	names := make([]any, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	rows, err := s.Rows(ctx, s.in, names)
	for _, w := range all {
		r := rows[w.Name]
		if r == nil { // the name is new
			r = &Row{}
		}
		_, reserved := r.reservation()
		if head, _ := r.waiters.Head(); !r.Held() && (!reserved || head == w.ID) {
			waiters = append(waiters, w.ID)
		}
	}
	return waiters, err
}

// SweepPage reads a page of rows, and calls the function forget with the rows that may be forgotten.
func (s *RowStore) SweepPage(
	ctx context.Context, on Statements, after *string, limit int, idle time.Duration, forget func([]*Row) (int, error),
) (deleted int, last string, err error) {
	from := after
	if from == nil {
		from = new(string)
		if err := on.Query(ctx, s.SQL["hand"], nil, func(scan Scan) error { return scan(from) }); err != nil {
			return 0, "", err
		}
	}
	seen, old, floor := 0, []*Row{}, int64(0)
	err = s.eachRow(ctx, on, s.Clock(), s.SQL["page"], []any{*from, limit}, func(r *Row) {
		seen++
		last = r.Name
		r.IdleSince = time.UnixMicro(r.Version)
		if r.Forgettable(idle) {
			old, floor = append(old, r), max(floor, r.Token)
		}
	})
	if seen < limit {
		last = ""
	}
	if err == nil && floor > 0 {
		err = Run(ctx, on, s.SQL["raise"], floor)
	}
	if err == nil && len(old) > 0 {
		deleted, err = forget(old)
	}
	if err == nil && after == nil {
		err = Run(ctx, on, s.SQL["move_hand"], last)
	}
	return deleted, last, err
}
