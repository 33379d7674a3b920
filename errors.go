package leasing

import (
	"errors"
	"fmt"
	"strings"
)

// errOutlasted is why a Close without a deadline ends.
var errOutlasted = errors.New("leases were held for longer than they were trusted when Close began")

// CloseError is what Manager.Close had to leave behind when its context ended,
// or, where that has no deadline, when it had waited for long enough.
type CloseError struct {
	// InUse names the leases whose holders had not released them. They are no
	// longer renewed.
	InUse []string
	// Unreleased counts claims whose release the backend has not answered.
	Unreleased int
	// Err is the cause of the context, or says what was not worth waiting for.
	Err error
}

func (e *CloseError) Error() string {
	text := fmt.Sprint(e.Err)
	if len(e.InUse) > 0 {
		text += ": " + either(len(e.InUse), "1 lease was still in use and is left to run out: ", "%d leases were still in use and are left to run out: ") + listed(e.InUse)
	}
	if e.Unreleased > 0 {
		text += ": " + either(e.Unreleased, "1 claim could not be released at the backend", "%d claims could not be released at the backend")
	}
	return text
}

func (e *CloseError) Unwrap() error { return e.Err }

// either chooses between the words for one and those for several.
func either(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

// unavailable makes an error match ErrUnavailable, and says so only once.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// listed shows the first few of many names.
func listed(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// permanent reports whether asking again can't help until somebody acts.
func permanent(err error) bool {
	for _, sentinel := range [...]error{ErrReleased, ErrInvalid, ErrDenied, ErrNotSetUp, ErrClosed, ErrUnsupported} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
