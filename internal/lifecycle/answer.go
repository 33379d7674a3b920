package lifecycle

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// noAnswerError is the error of a request that the backend did not answer within its bound. The
// outcome of the request is unknown.
type noAnswerError struct {
	err    error // matches ErrUnavailable
	answer error // the last answer before it; nil if there is none
}

// MarkNoAnswer marks an error that matches ErrUnavailable as the error of a request without an answer.
func MarkNoAnswer(err error) error { return &noAnswerError{err: err} }

// NoAnswer makes the error of a request whose bound has passed. The provider's error stays as text: its
// chain has the cause of a context, which may be another lease's.
func NoAnswer(err error) error {
	where := (*abstractions.Error)(nil)
	if errors.As(err, &where) { // the operation and the name are known here
		err = where.Err
	}
	text := strings.TrimPrefix(err.Error(), abstractions.ErrUnavailable.Error()+": ")
	return MarkNoAnswer(fmt.Errorf("%w: %s", abstractions.ErrUnavailable, text))
}

func (e *noAnswerError) Error() string {
	if e.answer == nil {
		return e.err.Error()
	}
	answer := strings.TrimPrefix(e.answer.Error(), abstractions.ErrUnavailable.Error()+": ")
	return fmt.Sprintf("%v; the last answer was: %s", e.err, answer)
}

func (e *noAnswerError) Unwrap() []error {
	if e.answer == nil {
		return []error{e.err}
	}
	return []error{e.err, e.answer}
}

func (e *noAnswerError) NotApplied() bool { return abstractions.NotApplied(e.err) }

// MarkTimeout marks a timeout of the client library itself, such as that of a dial, as the error of a request without an answer.
func MarkTimeout(err error) error {
	if _, marked := err.(*noAnswerError); marked || !errors.Is(err, abstractions.ErrUnavailable) || errors.Is(err, abstractions.ErrThrottled) { //nolint:errorlint // the outermost only
		return err
	}
	if timeout := (interface{ Timeout() bool })(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return MarkNoAnswer(err)
	}
	return err
}

// withLastAnswer returns err, which follows an earlier error of the same lease. If the backend did not answer this
// time, the result also carries its last answer.
func withLastAnswer(earlier, err error) error {
	noAnswer, ok := err.(*noAnswerError) //nolint:errorlint // as MarkNoAnswer has made it
	if last := lastAnswer(earlier); ok && last != nil {
		return &noAnswerError{err: noAnswer.err, answer: last}
	}
	return err
}

// lastAnswer returns the last answer from the backend that err carries.
func lastAnswer(err error) error {
	if noAnswer, ok := err.(*noAnswerError); ok { //nolint:errorlint // as MarkNoAnswer has made it
		return noAnswer.answer
	}
	return err
}
