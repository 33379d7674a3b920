package leasing

import (
	"errors"
	"fmt"
	"strings"
)

// errOutlasted is why a Close without a deadline ends.
var errOutlasted = errors.New("leases were held for longer than they were trusted when Close began")

// CloseError reports the leases and releases that Manager.Close left
// unfinished when it stopped waiting: because its context ended or, if that
// has no deadline, because the wait's own bound had passed.
type CloseError struct {
	// InUse lists the names of leases that their holders have not released.
	// They are no longer renewed.
	InUse []string
	// Unreleased counts claims whose release the backend has not confirmed.
	Unreleased int
	// Err is the cause of the context, or says why Close stopped waiting.
	Err error
}

func (e *CloseError) Error() string {
	text := fmt.Sprint(e.Err)
	if len(e.InUse) > 0 {
		text += fmt.Sprintf(": still in use and left to run out (%d): %s", len(e.InUse), listed(e.InUse))
	}
	if e.Unreleased > 0 {
		text += fmt.Sprintf(": claims that the backend has not released: %d", e.Unreleased)
	}
	return text
}

func (e *CloseError) Unwrap() error { return e.Err }

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

// permanent reports whether the same request gets the same answer until a person changes something.
func permanent(err error) bool {
	for _, sentinel := range [...]error{ErrReleased, ErrInvalid, ErrNotSetUp, ErrClosed, ErrUnsupported} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// denied reports whether the backend has refused the caller. Most refusals of this kind pass: a password is
// rotated, a role assignment has not arrived yet, a server has just started.
func denied(err error) bool { return errors.Is(err, ErrDenied) }
