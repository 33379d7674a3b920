package cas

import (
	"sync"
	"time"
)

// tokenClock makes fencing tokens rise within a second of a service whose clock
// shows whole seconds. While a record remembers the latest token, the next token
// follows from the record. After a deletion, or after the service has lost its data,
// only the service's second is left, and two holders in one second need different tokens.
//
// The part of the second is this host's: the time by which its clock is ahead of
// the service's. That orders the tokens of hosts whose clocks agree to less than
// a second. Where they don't it orders nothing, and does no harm: a token leaves
// the second that the service shows by a second at most. One process orders its own
// tokens whatever its clock shows. The zero value is ready.
//
// A backend without a clock needs no tokenClock. Its tokens count from one, so
// neither a record nor, if records are deleted, the highest token of the deleted ones
// may ever be forgotten.
type tokenClock struct {
	mu     sync.Mutex
	latest int64 // given by this process for any name, but for those of the future
}

// Floor returns the Floor of a record that was read when the service's clock
// showed date and this host's local. No two calls return the same within a second.
func (c *tokenClock) Floor(date, local time.Time) int64 {
	ahead := min(max(0, local.Sub(date)), time.Second)
	at := date.Add(ahead * 9 / 10).UnixMicro() // the last tenth is for hosts that are far ahead
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest >= at && c.latest < future(date) {
		at = c.latest + 1
	}
	c.latest = at // also where the service's clock went back
	return at - 1
}

// Given records the token of a new holder. A token of the future is the fault of
// another clock and orders nothing.
func (c *tokenClock) Given(token int64, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < future(date) {
		c.latest = max(c.latest, token)
	}
}

func future(date time.Time) int64 { return date.Add(2 * time.Second).UnixMicro() }
