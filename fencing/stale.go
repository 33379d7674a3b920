package fencing

import (
	"fmt"

	"github.com/distributedleasing/leasing"
)

// StaleError says that a resource refused a token. It matches leasing.ErrStale.
type StaleError struct {
	Resource string // "" for a Gate; otherwise as the check says
	Token    int64  // the one refused
	Seen     int64  // the highest that the resource has seen
}

func (e *StaleError) Error() string {
	resource := "the resource"
	if e.Resource != "" {
		resource = fmt.Sprintf("%q", e.Resource)
	}
	return fmt.Sprintf("%v: %d refused, %s has seen %d", leasing.ErrStale, e.Token, resource, e.Seen)
}

// Is makes the error match leasing.ErrStale.
func (e *StaleError) Is(target error) bool { return target == leasing.ErrStale }

// Check is the rule itself: it returns nil if token is at least the highest
// token that the resource has seen (0 for none), and a *StaleError otherwise. A
// number that no lease has, such as 0, is an error that matches
// leasing.ErrInvalid: comparing it would admit a caller without a lease.
func Check(resource string, token, seen int64) error {
	if token < 1 || token > leasing.MaxToken {
		return &leasing.InvalidError{Field: "token", Value: token, Want: wantToken}
	}
	if seen < 0 || seen > leasing.MaxToken {
		return &leasing.InvalidError{Field: "seen", Value: seen, Want: "0 for none, or " + wantToken}
	}
	if token < seen {
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}
