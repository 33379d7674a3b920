package sqllease

import (
	"context"
)

// sweepBatch is how many rows one sweeping transaction looks at.
const sweepBatch = 500

// sweepEvery is after how many releases a Store sweeps one batch by itself.
// It looks at more rows than those releases can have left behind.
const sweepEvery = 250

// Swept counts what a Sweep deleted.
type Swept struct {
	Names   int
	History int
}

// Sweep forgets the names that have been free and unused for longer than
// Options.Retention, and history older than Options.HistoryRetention. It goes
// through the tables once, in short transactions, and stops when ctx ends.
//
// A Store sweeps a little by itself too: every 250th release looks at 500 names
// and 500 entries, which keeps up with applications that release what they
// acquire. Those that let leases run out instead should call Sweep now and then.
//
// A name is forgotten only while its fencing token lies behind the database's
// clock, so that its next holder gets a greater one nevertheless.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	var total Swept
	for after, more := "", s.retention > 0; more; more = after != "" {
		err := s.call(ctx, "sweep", "", func(ctx context.Context) error {
			done, err := s.backend.sweep(ctx, after, sweepBatch, s.retention)
			after, total.Names = done.last, total.Names+done.deleted
			return err
		})
		if err != nil {
			return total, err
		}
	}
	for more := s.historyRetention > 0; more; {
		err := s.call(ctx, "sweep", "", func(ctx context.Context) error {
			deleted, err := s.backend.sweepHistory(ctx, sweepBatch, s.historyRetention)
			more, total.History = deleted == sweepBatch, total.History+deleted
			return err
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// sweepALittle is called by every release, and sweeps with some of them: the
// work is over then, and no trust runs while it waits. Its errors are nobody's;
// the next share may succeed.
func (s *Store) sweepALittle(ctx context.Context) {
	if s.releases.Add(1)%sweepEvery != 0 || !s.sweeping.TryLock() {
		return
	}
	defer s.sweeping.Unlock()
	if s.retention > 0 {
		if done, err := s.backend.sweep(ctx, s.swept, sweepBatch, s.retention); err == nil {
			s.swept = done.last
		}
	}
	if s.record.changes && s.historyRetention > 0 {
		_, _ = s.backend.sweepHistory(ctx, sweepBatch, s.historyRetention)
	}
}
