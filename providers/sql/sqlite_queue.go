package sqllease

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// lineUp is a queue as a row has it, see wakeups.go.
type lineUp []byte

// head is the first who waits.
func (q lineUp) head() (hash []byte, on pipeName) {
	return q[:hashBytes], pipeName(q[hashBytes:waiterBytes])
}

// find returns the place of a claim, or -1.
func (q lineUp) find(hash []byte) int {
	for at := 0; at < len(q); at += waiterBytes {
		if bytes.Equal(q[at:at+hashBytes], hash) {
			return at
		}
	}
	return -1
}

// without returns the queue without a claim.
func (q lineUp) without(hash []byte) lineUp {
	if at := q.find(hash); at >= 0 {
		return slices.Delete(q, at, at+waiterBytes)
	}
	return q
}

// longestTurn is more than any reservation lasts: one that seems to was written before a clock was
// set back.
const longestTurn = time.Minute

// kept says whether a name that nobody holds is reserved for the first who waits, and for how long.
func (r *sqliteRow) kept(now providerkit.HostTime) (left time.Duration, ok bool) {
	if r.ID != "" || len(r.waiters) == 0 || r.ends.Wall == 0 || r.ends.OtherBoot(now) {
		return 0, false
	}
	left = r.ends.Left(now)
	return left, left > 0 && left < longestTurn
}

// acquire applies the rule of an acquire, unless the name is reserved for another claim. One that
// waits joins the queue if it is refused, and leaves it when it gets the name; then so does a first
// one that has let its turn pass.
func (s *sqlite) acquire(r *sqliteRow, op *op, now providerkit.HostTime) providerkit.Change {
	left, kept := r.kept(now)
	free, before := r.ID == "", r.Record
	hash := hashOf(op.id)
	c := op.rule(&r.Record)
	if c.Write && kept && !bytes.Equal(r.waiters[:hashBytes], hash) {
		r.Record = before
		c = providerkit.Change{Err: &abstractions.HeldError{Holder: r.Show(), RetryAfter: left}}
	}
	switch {
	case c.Err == nil && c.Write && len(r.waiters) > 0 && r.Token != before.Token:
		if free && !bytes.Equal(r.waiters[:hashBytes], hash) {
			r.waiters = r.waiters[waiterBytes:]
		}
		r.waiters = r.waiters.without(hash)
	case errors.Is(c.Err, abstractions.ErrHeld) && len(r.waiters) < mostWaiters*waiterBytes && r.waiters.find(hash) < 0:
		if channel := s.waiters.channelOf(op.id); channel != nil {
			r.waiters = append(append(r.waiters, hash...), channel...)
			c.Write = true
		}
	}
	return c
}

// stillWaits refuses an acquire that has its place in the queue of a name that somebody holds. It only
// reads: those who wait take no lock, and nobody waits for them.
func (s *sqlite) stillWaits(ctx context.Context, op *op) (done applied, err error) {
	if op.acquire == nil || s.waiters.channelOf(op.id) == nil {
		return done, nil
	}
	r, err := s.find(ctx, s.db, op.name, op.id, s.clock())
	if err != nil || !r.Held() || r.Unsettled || r.waiters.find(hashOf(op.id)) < 0 {
		return done, err
	}
	if c := op.rule(&r.Record); !c.Write {
		done = applied{Change: c, after: r.Record}
	}
	return done, nil
}

// wake reserves a name that has become free for the first who waits, if anybody does. Those whose
// process is gone lose their place.
func (s *sqlite) wake(r *sqliteRow, now providerkit.HostTime) {
	for len(r.waiters) > 0 {
		hash, on := r.waiters.head()
		if s.waiters.reach(on) {
			break
		}
		r.waiters = r.waiters.without(hash)
	}
	if len(r.waiters) == 0 {
		return
	}
	if r.ID == "" {
		r.ends = now.Deadline(waitqueue.Grace)
	}
	s.freed = append(s.freed, slices.Clone(r.waiters))
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (s *sqlite) dequeue(ctx context.Context, name, waiter string) error {
	hash, _ := hex.DecodeString(waiter)
	return s.write(ctx, false, func(on statements) error {
		now := s.clock()
		r, err := s.find(ctx, on, name, "", now)
		if err != nil || r.waiters.find(hash) < 0 {
			return err
		}
		_, kept := r.kept(now)
		turn := kept && r.waiters.find(hash) == 0
		if r.waiters = r.waiters.without(hash); turn {
			r.ends = providerkit.HostDeadline{}
			s.wake(&r, now)
		}
		return s.put(ctx, on, &r, now)
	})
}

// write runs do in a transaction, and wakes those whose turn it is then.
func (s *sqlite) write(ctx context.Context, urgent bool, do func(statements) error) error {
	var freed []lineUp
	err := s.db.write(ctx, urgent, func(on statements) error {
		s.freed = nil
		err := do(on)
		freed = s.freed
		return err
	})
	if err == nil {
		for _, queue := range freed {
			s.waiters.tell(queue)
		}
	}
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
		if !r.Held() && (!kept || hex.EncodeToString(r.waiters[:hashBytes]) == w.ID) {
			waiters = append(waiters, w.ID)
		}
	}
	return waiters, nil
}
