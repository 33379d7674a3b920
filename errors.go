package leasing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
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

// noAnswerError is the error of a request that the backend did not answer within its bound.
// Its outcome is unknown.
type noAnswerError struct {
	err    error // matches ErrUnavailable
	answer error // the last answer before it; nil if there is none
}

// noAnswer makes the error of a request whose bound has passed. The provider's error stays as text: its
// chain has the cause of a context, which may be another lease's.
func noAnswer(err error) error {
	where := (*Error)(nil)
	if errors.As(err, &where) { // the operation and the name are known here
		err = where.Err
	}
	text := strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ")
	return &noAnswerError{err: fmt.Errorf("%w: %s", ErrUnavailable, text)}
}

func (e *noAnswerError) Error() string {
	if e.answer == nil {
		return e.err.Error()
	}
	answer := strings.TrimPrefix(e.answer.Error(), ErrUnavailable.Error()+": ")
	return fmt.Sprintf("%v; the last answer was: %s", e.err, answer)
}

func (e *noAnswerError) Unwrap() []error {
	if e.answer == nil {
		return []error{e.err}
	}
	return []error{e.err, e.answer}
}

func (e *noAnswerError) NotApplied() bool { return abstractions.NotApplied(e.err) }

// unanswered marks the error of a client library's own timeout, as of a dial, as one of a request that had no answer.
func unanswered(err error) error {
	if _, marked := err.(*noAnswerError); marked || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrThrottled) { //nolint:errorlint // the outermost only
		return err
	}
	if timeout := (interface{ Timeout() bool })(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return &noAnswerError{err: err}
	}
	return err
}

// after returns err, which follows an earlier error of the same lease. If the backend did not answer this
// time, err carries its last answer.
func after(earlier, err error) error {
	silent, ok := err.(*noAnswerError) //nolint:errorlint // as noAnswer has made it
	if last := answerOf(earlier); ok && last != nil {
		return &noAnswerError{err: silent.err, answer: last}
	}
	return err
}

// answerOf returns the last answer of the backend that err carries.
func answerOf(err error) error {
	if silent, ok := err.(*noAnswerError); ok { //nolint:errorlint // as noAnswer has made it
		return silent.answer
	}
	return err
}
