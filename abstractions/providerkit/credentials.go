package providerkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// CredentialError is a failure of a source of credentials: a log-in or metadata service, a file,
// a program, or a function of the application. It says nothing about the store, which received no request. So only the text of
// the source's own error is kept, and the chain does not contain that error: a 404 from a log-in service does not mean a missing
// record, nor a 429 a throttled store.
//
// It matches ErrDenied if the source has refused the identity, and otherwise ErrUnavailable. If a context ended during the call
// to the source, it also matches that context's error.
type CredentialError struct {
	// Cause is the source's own error. It is for callers who know the source.
	Cause error

	class, ended error
	text         string
}

// NewCredentialError makes an error from the error of a source. refused says that the source has refused
// the identity, and did not merely fail. A cause that matches ErrDenied says the same. A
// CredentialError in the chain of the cause is returned unchanged.
func NewCredentialError(cause error, refused bool) *CredentialError {
	if already := credentialError(cause); already != nil {
		return already
	}
	const longest = 1000 // bytes; some libraries put a whole answer into the text
	e := &CredentialError{Cause: cause, class: abstractions.ErrUnavailable}
	if refused || errors.Is(cause, abstractions.ErrDenied) {
		e.class = abstractions.ErrDenied
	}
	text := cause.Error()
	if panicked := (*PanicError)(nil); errors.As(cause, &panicked) {
		text = fmt.Sprintf("the source panicked: %v", panicked.Value)
	}
	e.text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(e.text) > longest {
		e.text = strings.ToValidUTF8(e.text[:longest], "") + "..."
	}
	return e
}

func (e *CredentialError) Error() string { return fmt.Sprintf("%v: credentials: %s", e.class, e.text) }

// Is follows the rules in the type's documentation.
func (e *CredentialError) Is(target error) bool {
	return target == e.class || e.ended != nil && target == e.ended
}

// As finds only a panic of the source, which package leasing logs with its stack.
func (e *CredentialError) As(target any) bool {
	_, is := target.(**PanicError)
	return is && errors.As(e.Cause, target)
}

// NotApplied reports true: a request without credentials is not sent.
func (e *CredentialError) NotApplied() bool { return true }

// AskCredentials calls a source of credentials, and returns its failure, or its panic, as a
// *CredentialError. refused reports whether an error means that the source has refused the
// identity; it may be nil. An error that matches ErrDenied is always a refusal.
//
// The source's context ends a little before ctx does, so that the caller learns which side
// did not answer.
func AskCredentials[T any](ctx context.Context, refused func(error) bool, ask func(context.Context) (T, error)) (value T, err error) {
	if deadline, has := ctx.Deadline(); has {
		left := time.Until(deadline)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left-min(left/20, 250*time.Millisecond))
		defer cancel()
	}
	err = GuardCredentials(refused, func() (err error) {
		value, err = ask(ctx)
		return err
	})
	var e *CredentialError
	if ended := ctx.Err(); ended != nil && errors.As(err, &e) {
		own := *e // a copy, since other callers may share e
		own.class, own.ended = abstractions.ErrUnavailable, ended
		err = &own
	}
	return value, err
}

// GuardCredentials calls a source of credentials, and returns its failure, or its panic, as
// a *CredentialError. refused is as in AskCredentials.
func GuardCredentials(refused func(error) bool, ask func() error) error {
	err := Guard(ask)
	if err == nil {
		return nil
	}
	return NewCredentialError(err, refused != nil && refused(err))
}

// credentialError finds the failure of a source in an error from a client library. It returns
// nil if there is none, or if an earlier request of the same call may have been applied.
func credentialError(err error) *CredentialError {
	switch err.(type) { //nolint:errorlint // the commonest answers, without a search of the chain
	case *abstractions.HeldError, *abstractions.LostError:
		return nil
	}
	var found *CredentialError
	errors.As(err, &found) // not through a partialError
	return found
}
