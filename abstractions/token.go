package abstractions

import "time"

// MaxToken bounds fencing tokens: below 2^53, so that they survive formats
// that count in floating point (JSON readers, Lua).
const MaxToken = 1<<53 - 1

// NextToken returns the fencing token of a new holder: greater than the last
// one stored for the name, and no less than the backend's time in microseconds
// since 1970.
//
// The clock part lets a record be forgotten once it has been idle for a while,
// and lets a store that lost its last writes still hand out a higher token: a
// count alone would begin again. Microseconds reach 2^53 in the year 2255.
//
// A backend that tells no time passes the zero Time: its tokens count. It may then
// never forget a name's record or, if it does, the highest token that it forgot.
func NextToken(stored int64, now time.Time) int64 {
	return max(stored+1, now.UnixMicro())
}
