package dialect

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// WaitList is the queue in a row, with a line for each waiter: its hash, the channel on which its process is
// woken, the time since which it waits, its ID and its owner.
type WaitList string

// Head returns the first waiter, and its channel.
func (q WaitList) Head() (waiter, channel string) {
	waiter, rest, _ := strings.Cut(string(q), " ")
	channel, _, _ = strings.Cut(rest, " ")
	return waiter, channel
}

// Rest returns the queue behind its first waiter.
func (q WaitList) Rest() WaitList {
	_, rest, _ := strings.Cut(string(q), "\n")
	return WaitList(rest)
}

// Without returns the queue without a waiter, and reports whether the waiter was in the queue.
func (q WaitList) Without(waiter string) (left WaitList, was bool) {
	for at := q; at != ""; at = at.Rest() {
		if strings.HasPrefix(string(at), waiter) {
			return q[:len(q)-len(at)] + at.Rest(), true
		}
	}
	return q, false
}

func (q WaitList) Len() int { return strings.Count(string(q), "\n") }

// list returns the waiters, except those whose process is gone.
func (q WaitList) list(now time.Time, lives func(channel string) bool) (list []abstractions.Waiting) {
	for ; q != "" && len(list) < abstractions.MaxWaiters; q = q.Rest() {
		line, _, _ := strings.Cut(string(q), "\n")
		words := strings.SplitN(line, " ", 5)
		if len(words) == 5 && lives(words[1]) {
			since, _ := strconv.ParseInt(words[2], 10, 64)
			list = append(list, abstractions.Waiting{Fingerprint: abstractions.FingerprintOf(words[3]), Owner: words[4], Since: time.UnixMicro(since).UTC(), Now: now})
		}
	}
	return list
}

// leave takes a waiter out. If the name is kept for that waiter, the turn passes to the next waiter.
func (q *WaitList) leave(waiter string, kept bool) (c providerkit.Change) {
	head, _ := q.Head()
	turn := kept && head == waiter
	*q, c.Write = q.Without(waiter)
	c.Deadline, c.Wake = turn, turn
	return c
}

// admit applies the rule of an acquire, unless the name is kept for another claim, for the rest of a
// reservation. A waiting claim joins the queue if it is refused, and leaves the queue when it gets the name. In that case
// a first waiter that has missed its turn leaves with that claim.
func (w *Wakeups) admit(r *Row, op *Op) providerkit.Change {
	free, before := r.ID == "", r.Record
	waiter := WaiterOf(op.ID)
	head, _ := r.waiters.Head()
	left, kept := r.kept()
	c := op.Rule(&r.Record)
	if c.Write && kept && head != waiter {
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

// longestTurn is longer than any reservation: a longer reservation was written before a clock was
// set back.
const longestTurn = time.Minute

// Polled is the stored channel of waiters that poll.
var Polled = hex.EncodeToString(unheard[:])
