package fencing

import (
	"fmt"
	"strconv"

	"github.com/distributedleasing/leasing"
)

var wantToken = fmt.Sprintf("Lease.Token: 1 to %d", int64(leasing.MaxToken))

// ParseToken parses a token that was stored or sent as text: decimal digits
// and nothing else. A sign, a space, a leading zero, a fraction, an exponent
// or a number above leasing.MaxToken is refused with an error that matches
// leasing.ErrInvalid: a conversion to floating point may have changed the
// token.
func ParseToken(text string) (int64, error) {
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(token, 10) != text || Check("", token, 0) != nil {
		return 0, &leasing.InvalidError{Field: "token", Value: text, Want: "decimal digits of " + wantToken}
	}
	return token, nil
}
