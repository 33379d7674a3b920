package cas

import (
	"sync"
	"time"
)

// tokenClock makes fencing tokens rise even within a second, for a service whose clock shows only
// whole seconds. While a record remembers the latest token, the next token follows from the record.
// After a deletion, or after the service has lost its data, only the service's second is left, and
// two holders in one second need different tokens.
//
// The fraction of the second comes from this host: it is the time by which the
// host's clock is ahead of the service's. That orders the tokens of hosts whose
// clocks agree to within a second. If the clocks disagree more, the tokens of
// different hosts are in no particular order, which does no harm: a token is at
// most one second after the second that the service shows. The tokens of one
// process are in order whatever its clock shows. The zero value is ready.
//
// A backend without a clock needs no tokenClock. Its tokens count from one, so it
// must keep its records for ever, or, if it deletes records, the highest token of the
// deleted ones.
type tokenClock struct {
	mu     sync.Mutex
	latest int64 // granted by this process for any name, except tokens of the future
}

// Floor returns the Floor of a record that was read when the service's clock showed date,
// and this host's clock showed local. No two calls within a second return the same Floor.
func (c *tokenClock) Floor(date, local time.Time) int64 {
	ahead := min(max(0, local.Sub(date)), time.Second)
	at := date.Add(ahead * 9 / 10).UnixMicro() // the last tenth is for hosts that are far ahead
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest >= at && c.latest < future(date) {
		at = c.latest + 1
	}
	c.latest = at // even if the service's clock went back
	return at - 1
}

// Given records the token of a new holder. A token of the future comes from
// another clock that was wrong, and is ignored.
func (c *tokenClock) Given(token int64, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < future(date) {
		c.latest = max(c.latest, token)
	}
}

func future(date time.Time) int64 { return date.Add(2 * time.Second).UnixMicro() }
