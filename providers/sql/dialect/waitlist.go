package dialect

import (
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// WaitList is the queue in a row, with a line for each waiter: its hash, the channel on which its process is
// woken, the time at which it began to wait, its ID and its owner.
type WaitList string

// Head returns the first waiter, and its channel.
func (q WaitList) Head() (waiter, channel string) {
	waiter, rest, _ := strings.Cut(string(q), " ")
	channel, _, _ = strings.Cut(rest, " ")
	return waiter, channel
}

// Rest returns the queue without its first waiter.
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

// leave removes a waiter from the queue. If the name is kept for that waiter, the turn passes to the next waiter.
func (q *WaitList) leave(waiter string, reserved bool) (c providerkit.Change) {
	head, _ := q.Head()
	turn := reserved && head == waiter
	*q, c.Write = q.Without(waiter)
	c.Deadline, c.Wake = turn, turn
	return c
}
