package fencing

import (
	"fmt"

	"github.com/distributedleasing/leasing"
)

// StaleError says that a resource refused a token. It matches leasing.ErrStale.
type StaleError struct {
	Resource string // "" for a Gate; what it is elsewhere, each check says
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
// token that the resource has seen (0 for none), and a *StaleError otherwise.
func Check(resource string, token, seen int64) error {
	if token < seen {
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}
