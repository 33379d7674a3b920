package sqllease

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
)

// lineUp is a queue as a row has it, see wakeups.go.
type lineUp []byte

// head is the first who waits.
func (q lineUp) head() (hash, channel []byte) {
	return q[:hashBytes], q[hashBytes:waiterBytes]
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
		if channel := s.channelOf(op.id); channel != nil {
			r.waiters = append(append(r.waiters, hash...), channel...)
			c.Write = true
		}
	}
	return c
}

// wake reserves a name that has become free for the first who waits, if anybody does, and returns those who do. Those whose
// process is gone lose their place.
func (s *sqlite) wake(r *sqliteRow, now providerkit.HostTime) (waiting lineUp) {
	for len(r.waiters) > 0 {
		_, channel := r.waiters.head()
		if bytes.Equal(channel, unheard[:]) || writePipe(s.pipe(channel), "") {
			break
		}
		r.waiters = r.waiters[waiterBytes:]
	}
	if len(r.waiters) > 0 && r.ID == "" {
		r.ends = now.Deadline(waitqueue.Grace)
	}
	return slices.Clone(r.waiters)
}

// tell wakes the first of a queue, and prepares others for when all before them hang: a reservation
// each. A release stays cheap, so it tells a few.
func (s *sqlite) tell(q lineUp) {
	last := len(q)/waiterBytes - 1
	for _, rank := range []int{0, 1, 2, 3, 5, 9, 17, 33, last} {
		if rank > last {
			continue
		}
		if hash, channel := q[rank*waiterBytes:].head(); !bytes.Equal(channel, unheard[:]) {
			writePipe(s.pipe(channel), fmt.Sprintf("%x %d\n", hash, waitqueue.Grace.Milliseconds()*int64(rank)))
		}
	}
}

// dequeue takes a claim out of a name's queue. If it was its turn, it is the next one's then.
func (s *sqlite) dequeue(ctx context.Context, name, waiter string) error {
	hash, _ := hex.DecodeString(waiter)
	_, err := s.make(ctx, &sqliteChange{name: name, rule: func(r *sqliteRow, now providerkit.HostTime) providerkit.Change {
		at := r.waiters.find(hash)
		_, kept := r.kept(now)
		r.waiters = r.waiters.without(hash)
		turn := kept && at == 0
		return providerkit.Change{Write: at >= 0, Deadline: turn, Wake: turn}
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
		if !r.Held() && (!kept || hex.EncodeToString(r.waiters[:hashBytes]) == w.ID) {
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
	pipe, err := makePipe(s.db.opened.Load().path, w.channel, w.message)
	if err != nil {
		return nil, errPolls
	}
	return pipe, nil
}

// pipe is where the process behind a channel is woken.
func (s *sqlite) pipe(channel []byte) string {
	if file := s.db.opened.Load(); file != nil {
		return pipePath(file.path, channel)
	}
	return ""
}

func pipePath(database string, channel []byte) string {
	return database + "-wake-" + hex.EncodeToString(channel)
}
