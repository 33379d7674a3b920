package sqllease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// kept says whether a name that nobody holds is reserved for the first who waits, and for how long.
func (r *sqliteRow) kept(now providerkit.HostTime) (left time.Duration, ok bool) {
	if r.ID != "" || len(r.waiters) == 0 || r.ends.Wall == 0 || r.ends.OtherBoot(now) {
		return 0, false
	}
	left = r.ends.Left(now)
	return left, left > 0 && left < longestTurn
}

// acquire applies the rule of an acquire, or that of the queue.
func (s *sqlite) acquire(r *sqliteRow, op *op, now providerkit.HostTime) providerkit.Change {
	left, kept := r.kept(now)
	return s.admit(&r.row, &r.waiters, op, left, kept)
}

// wake reserves a name that has become free for the first who waits, if anybody does, and returns those who do. Those whose
// process is gone lose their place.
func (s *sqlite) wake(r *sqliteRow, now providerkit.HostTime) (waiting lineUp) {
	for len(r.waiters) > 0 {
		_, channel := r.waiters.head()
		if s.lives(channel) {
			break
		}
		r.waiters = r.waiters.rest()
	}
	if len(r.waiters) > 0 && r.ID == "" {
		r.ends = now.Deadline(waitqueue.Grace)
	}
	return r.waiters
}

// lives says whether the process behind a channel may be alive. Of one that polls that is not known.
func (s *sqlite) lives(channel string) bool {
	return channel == polled || writePipe(s.pipe(channel), "")
}

// waiting tells who waits, but for one that has let its turn pass, and for those whose process is gone.
func (s *sqlite) waiting(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	now := s.clock()
	r, err := s.find(ctx, s.db, name, "", now)
	if _, kept := r.kept(now); r.ID == "" && r.ends.Wall != 0 && !kept {
		r.waiters = r.waiters.rest()
	}
	return r.waiters.list(r.Now, s.lives), err
}

// tell wakes the first of a queue, and prepares others for when all before them hang: a reservation
// each. A release stays cheap, so it tells a few.
func (s *sqlite) tell(q lineUp) {
	last := q.len() - 1
	for rank := 0; q != ""; rank, q = rank+1, q.rest() {
		if rank != last && !slices.Contains([]int{0, 1, 2, 3, 5, 9, 17, 33}, rank) {
			continue
		}
		if waiter, channel := q.head(); channel != polled {
			writePipe(s.pipe(channel), fmt.Sprintf("%s %d\n", waiter, waitqueue.Grace.Milliseconds()*int64(rank)))
		}
	}
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (s *sqlite) dequeue(ctx context.Context, name, waiter string) error {
	_, err := s.make(ctx, &sqliteChange{name: name, rule: func(r *sqliteRow, now providerkit.HostTime) providerkit.Change {
		_, kept := r.kept(now)
		return r.waiters.leave(waiter, kept)
	}})
	return err
}

// turns finds the waiters whose turn it is, or for whom nobody stands in the way.
func (s *sqlite) turns(ctx context.Context, all []turn) (waiters []string, err error) {
	for _, w := range all {
		now := s.clock()
		r, err := s.find(ctx, s.db, w.Name, "", now)
		if err != nil {
			return nil, err
		}
		_, kept := r.kept(now)
		if head, _ := r.waiters.head(); !r.Held() && (!kept || head == w.ID) {
			waiters = append(waiters, w.ID)
		}
	}
	return waiters, nil
}

// listen makes this process' pipe. Where that can't be, it polls.
func (s *sqlite) listen(ctx context.Context, w *wakeups) (providerkit.Connection, error) {
	if err := s.db.verifyFile(ctx); err != nil {
		return nil, err
	}
	if s.db.opened.Load() == nil {
		return nil, errPolls
	}
	pipe, err := makePipe(s.db.opened.Load().path, w.Channel, w.message)
	if err != nil {
		return nil, errPolls
	}
	return pipe, nil
}

// pipe is where the process behind a channel is woken.
func (s *sqlite) pipe(channel string) string {
	if file := s.db.opened.Load(); file != nil {
		return pipePath(file.path, channel)
	}
	return ""
}

func pipePath(database, channel string) string { return database + "-wake-" + channel }
