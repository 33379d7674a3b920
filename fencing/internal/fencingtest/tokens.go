// Package fencingtest has invalid fencing tokens, for the tests of this folder.
package fencingtest

import (
	"math"

	"github.com/distributedleasing/leasing"
)

// BadTokens are numbers that are never the token of a lease.
var BadTokens = []int64{0, -1, math.MinInt64, leasing.MaxToken + 1, math.MaxInt64}

// NotTokens are invalid texts that some parser of numbers would accept.
var NotTokens = []string{
	"", "0", "00", "01", "-1", "+1", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "1_000", "١", "NaN", "inf", "abc", "1,2",
	"9007199254740992",     // 2^53
	"9223372036854775808",  // 2^63
	"18446744073709551617", // 2^64 + 1
}
