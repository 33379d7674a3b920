package providerkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Class is the meaning, for the request, of an error from a client library. A driver maps its
// backend's codes to classes; everything else is Unknown.
type Class uint8

// The classes, and the error of package abstractions that each becomes.
const (
	Unknown  Class = iota // the request may have been applied, or may yet be: ErrUnavailable
	Unsent                // the request has not reached the backend: ErrUnavailable, not applied
	Refused               // refused for now, and not applied: ErrThrottled
	Denied                // ErrDenied
	NotSetUp              // ErrNotSetUp
	Invalid               // the request is invalid: ErrInvalid
	Closed                // the user has closed the client: ErrClosed
)

// Meaning is a driver's interpretation of an error from its client library.
type Meaning struct {
	Class Class
	// RetryAfter, for Refused, is the pause that the backend asks for, or 0.
	RetryAfter time.Duration
	// Text, unless "", replaces the error's own text, which may have many lines, or quote
	// a secret. The error stays reachable by errors.As.
	Text string
	// Advice, unless "", names the remedy.
	Advice string
}

// AdvisedError is an error with advice that uses the Go names of options. A program with other names for
// options replaces the advice.
type AdvisedError struct {
	Err    error
	Advice string
}

func (e *AdvisedError) Error() string { return e.Err.Error() + "; " + e.Advice }
func (e *AdvisedError) Unwrap() error { return e.Err }

// Of returns err as an error of package abstractions, with both in its chain.
func (m Meaning) Of(err error) error {
	if m.Text != "" {
		err = WithText(m.Text, err)
	}
	if m.Advice != "" {
		err = &AdvisedError{err, m.Advice}
	}
	switch m.Class {
	case Unsent:
		return MarkNotApplied(prefixError(abstractions.ErrUnavailable, err))
	case Refused:
		return &abstractions.ThrottledError{RetryAfter: m.RetryAfter, Err: err}
	case Denied:
		return prefixError(abstractions.ErrDenied, err)
	case NotSetUp:
		return prefixError(abstractions.ErrNotSetUp, err)
	case Invalid:
		return prefixError(abstractions.ErrInvalid, err)
	case Closed:
		return prefixError(abstractions.ErrClosed, err)
	}
	return prefixError(abstractions.ErrUnavailable, err)
}

// NotInTime returns an ErrUnavailable for a request that was not sent within its time. Like a net.Error it has a
// method Timeout that reports true: it is not an answer from the backend, and does not replace an earlier answer.
func NotInTime(text string) error { return MarkNotApplied(&lateError{text}) }

type lateError struct{ text string }

func (e *lateError) Error() string { return abstractions.ErrUnavailable.Error() + ": " + e.text }
func (e *lateError) Unwrap() error { return abstractions.ErrUnavailable }
func (e *lateError) Timeout() bool { return true }

// NotSent reports whether err says that no connection was established: the dial failed, or the host name is unknown. A driver
// gives such an error the class Unsent if its client library makes a single attempt. If the library retries, the driver must not
// do so, since an earlier attempt may have arrived.
func NotSent(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}

// MarkNotApplied marks an error as proof that the request was not applied and never
// will be, whatever else the error matches: abstractions.NotApplied reports true.
func MarkNotApplied(err error) error { return notAppliedError{err} }

type notAppliedError struct{ error }

func (e notAppliedError) NotApplied() bool { return true }
func (e notAppliedError) Unwrap() error    { return e.error }

// Partial returns the error for a call that failed after one of its requests may
// have been applied. "Throttled", "denied" and the like are true of the request
// that failed and not of the call, so errors.Is finds none of them: the outcome
// is unknown. The client library's own errors stay reachable.
func Partial(err error) error {
	if _, already := err.(*partialError); err == nil || already { //nolint:errorlint // a partialError inside another error does not count
		return err
	}
	return &partialError{err}
}

type partialError struct{ err error }

func (e *partialError) NotApplied() bool { return false }

func (e *partialError) Error() string {
	text := strings.TrimPrefix(e.err.Error(), abstractions.ErrUnavailable.Error()+": ")
	return fmt.Sprintf("%v: begun but not finished: %s", abstractions.ErrUnavailable, text)
}

func (e *partialError) Is(target error) bool {
	return target == abstractions.ErrUnavailable || !abstractions.NotApplied(target) && errors.Is(e.err, target)
}

// As skips errors that say that the request was not applied.
func (e *partialError) As(target any) bool {
	if !errors.As(e.err, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	if err, ok := found.Interface().(error); ok && abstractions.NotApplied(err) {
		found.SetZero()
		return false
	}
	return true
}

// isClassified reports whether an error already matches an error of package abstractions.
func isClassified(err error) bool {
	switch err.(type) { //nolint:errorlint // the commonest answers, without a search of the chain
	case *abstractions.HeldError, *abstractions.LostError:
		return true
	}
	return abstractions.NotApplied(err) || errors.Is(err, abstractions.ErrUnavailable)
}

// WithText returns err with another text.
func WithText(text string, err error) error { return &textError{text, []error{err}} }

// textError gives several errors one text.
type textError struct {
	text string
	errs []error
}

func (c *textError) Error() string   { return c.text }
func (c *textError) Unwrap() []error { return c.errs }

// prefixError puts prefix before err, in the text and in the chain, unless err matches prefix already.
func prefixError(prefix, err error) error {
	if errors.Is(err, prefix) {
		return err
	}
	text := err.Error()
	if !strings.HasPrefix(text, prefix.Error()) {
		text = prefix.Error() + ": " + text
	}
	return &textError{text, []error{prefix, err}}
}

// withoutCause returns err without the cause of a context that has ended: the cause may be an error from another lease. The text
// of err stays.
func withoutCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(ctx.Err(), cause) || !errors.Is(err, cause) {
		return err
	}
	return errors.New(err.Error())
}
