// Package batch combines operations that are made at the same time into one call.
//
// A [Batcher] sends the requests to one server. While few calls are in flight, a request is sent at once. Otherwise it waits in a
// queue, and the next call takes as many requests as fit. So a busy process makes few, large calls, and a single caller is not
// delayed. Do sends on the caller's own goroutine if there is nothing to combine and the server is known to answer at once. That
// saves two goroutine switches, which take about as long as a round trip to a nearby server.
//
// The package promises, whatever the connection does:
//   - Do and DoAll return as soon as their context ends, except that they don't check it in the first 10 ms if the server
//     is fast. An operation that is sent on the caller's goroutine may delay the return by as much as New's argument direct.
//   - A request that was withdrawn, refused or too late to be sent is marked as not applied. The outcome of a request
//     that was sent, but not answered in time, is unknown.
//   - A call has at most [MaxOperations] operations, and takes requests in order of arrival.
//   - A call that hangs delays others for at most 250 ms; then another call is sent in parallel. At most [MaxCalls] calls are
//     in flight.
//   - The deadline of a call is the latest deadline of its senders. A sender that leaves earlier does not shorten the call.
//   - Close makes waiting requests fail, and returns once the calls in flight have ended. They end at their deadlines,
//     if the send function obeys these.
package batch

import (
	"math"
	"time"
)

const (
	// MaxOperations limits the number of operations in one call. A call of this size occupies a server for a
	// quarter of a millisecond, during which the server does no other work.
	MaxOperations = 256
	// MaxCalls limits the number of calls in flight, even if most of them hang.
	MaxCalls = 64
	// UntilItLeaves makes a caller send on its own goroutine, under its own context.
	UntilItLeaves time.Duration = math.MaxInt64

	// usualCalls limits the number of calls in flight if no call hangs.
	usualCalls = 2
	// maxQueueDelay is the time that a request waits for the end of calls before another call is made: a dead connection must not delay
	// requests that another connection could carry.
	maxQueueDelay = 250 * time.Millisecond
	// fastAnswer is the longest answer time of a server to which callers send on their own goroutine. It is also the time for
	// which other callers wait before they check their contexts.
	fastAnswer = 10 * time.Millisecond
)
