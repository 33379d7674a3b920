// Package batch combines operations that are made at the same time into one call.
//
// A [Batcher] stands before one server. While few calls are under way, a request is sent at once. Requests made meanwhile wait in
// a queue, and the next call takes as many as fit. So a busy process makes few, large calls, and a lone caller
// waits for nothing. Do sends on the caller's own goroutine if there is nothing to combine and the server is known to answer
// at once: that saves two changes of goroutine, which take about as long as a round trip to a server nearby.
//
// It promises, whatever the connection does:
//   - Do and DoAll return as soon as their context ends, but that they don't look at it in the first 10 ms if the server is
//     fast. An operation that is sent on the caller's goroutine may delay that for the time that New was given.
//   - A request that was withdrawn, refused or too late to be sent is marked as not applied. One that was sent, and not
//     answered in time, is not: its outcome is unknown.
//   - A call has at most [MaxOperations] operations, and takes requests in the order in which they came.
//   - A call that hangs holds up others for at most 250 ms: then one more is sent beside it. At most [MaxCalls] are under way.
//   - A call ends at the latest deadline of its senders. None that leaves earlier takes the others' time.
//   - Close fails requests that wait, and returns once the calls under way have ended. They end at their deadlines, if the
//     function that sends them heeds these.
package batch

import (
	"math"
	"time"
)

const (
	// MaxOperations is the most operations in one call: the server does nothing else meanwhile, a quarter of a millisecond for so
	// many.
	MaxOperations = 256
	// MaxCalls bounds the calls that are under way at the same time, most of which hang then.
	MaxCalls = 64
	// UntilItLeaves has a caller send by itself, under its own context.
	UntilItLeaves time.Duration = math.MaxInt64

	// usualCalls is how many calls are under way at a time if none hangs.
	usualCalls = 2
	// stuck is how long a request waits for calls to end before another is made beside them: a connection that has died must not
	// hold up what another one could carry.
	stuck = 250 * time.Millisecond
	// prompt is how fast a server answers to which callers send by themselves. Others wait for so long before they look at their
	// contexts.
	prompt = 10 * time.Millisecond
)
