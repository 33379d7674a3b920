package abstractions

import "time"

// MaxToken is the largest fencing token: 2^53-1. Formats that store numbers as floating point
// (JSON readers, Lua) represent every token up to MaxToken exactly. After a claim with this token
// no other claim can hold the name, on any backend: an acquire is refused with ErrNotSetUp until an
// operator repairs the stored record.
const MaxToken = 1<<53 - 1

// NextToken returns the fencing token of a new holder: greater than the last
// one stored for the name, and no less than the backend's time in microseconds
// since 1970.
//
// Thanks to the clock, a token still rises after the record of an idle name
// was forgotten, or after the store lost its last writes; a plain counter
// would start over. Microseconds reach 2^53 in the year 2255. A result above MaxToken means that no
// token is left.
//
// A backend without a clock passes the zero Time, which makes tokens a plain
// counter. It must then keep the record of every name forever, or remember the highest token that
// it has forgotten.
func NextToken(stored int64, now time.Time) int64 {
	return max(min(stored, MaxToken)+1, now.UnixMicro())
}
