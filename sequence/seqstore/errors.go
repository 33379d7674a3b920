package seqstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// The errors of every store match these sentinels (see errors.Is). A store that
// can't be reached, or refuses a request, uses the sentinels of package leasing:
// leasing.ErrUnavailable, ErrThrottled, ErrDenied, ErrNotSetUp, ErrInvalid.
var (
	// ErrLate: the number is no longer the caller's, and nothing was changed. The error is a
	// *LateCommitError.
	ErrLate = errors.New("too late")
	// ErrEnded: the operation's number is closed. The error is an *EndedError.
	ErrEnded = errors.New("the operation has ended")
	// ErrOtherPayload: the number is committed, with another payload.
	ErrOtherPayload = errors.New("committed with another payload")
	// ErrUnknownStream: the stream has not been created.
	ErrUnknownStream = errors.New("unknown stream")
	// ErrOpen: a number that must be closed is open. The error is an *OpenError.
	ErrOpen = errors.New("a number is still open")
	// ErrRefused: the database has refused the transaction's writes, and nothing was changed. The
	// error is a *RefusedError.
	ErrRefused = errors.New("refused by the database")
	// ErrCheckpoint: a reader's place does not exist in the present stream. The error is a
	// *CheckpointError.
	ErrCheckpoint = errors.New("no such place in the stream")
	// ErrNotFound: there is no such number, operation or item.
	ErrNotFound = errors.New("not found")
)

// Settlement is the outcome of a result that came too late: see package sequence.
type Settlement string

// LateCommitError says that a lease or a claim ended before the request, and that the request
// changed nothing. It includes the present state of the number, and matches ErrLate.
type LateCommitError struct {
	Op    string // "commit", "save", "resolve", ...
	Entry Entry  // as it is now, without payload and work
	// Expired says that the state is still Leased: the lease has run out, and no cleaner has
	// claimed the number yet.
	Expired bool
	// Settled says, in an error that Stream.Do returns, where the result is now.
	Settled Settlement
}

func (e *LateCommitError) Error() string {
	text := fmt.Sprintf("sequence: %s %d of %q: %v: ", e.Op, e.Entry.Seq, e.Entry.Stream, ErrLate)
	switch {
	case e.Expired:
		text += "its lease has run out"
	case e.Entry.State == Recovered:
		text += fmt.Sprintf("it was recovered as %d", e.Entry.ReplacedBy)
	case e.Entry.State == Gap || e.Entry.State == Sealed:
		text += fmt.Sprintf("it is a %s (%s)", strings.Replace(string(e.Entry.State), "sealed", "sealed gap", 1), e.Entry.Reason)
	default:
		text += "it is " + string(e.Entry.State)
	}
	if e.Settled != "" {
		return text + "; its result is " + string(e.Settled)
	}
	return text + "; save the result, or fill the gap while it is not sealed (Stream.Settle does what is possible)"
}

// Is makes the error match ErrLate.
func (e *LateCommitError) Is(target error) bool { return target == ErrLate }

// EndedError says that an operation already has a number, which is closed or has run out. It
// matches ErrEnded, and leasing.ErrReleased, since a retry does not help.
type EndedError struct{ Entry Entry }

func (e *EndedError) Error() string {
	return fmt.Sprintf("sequence: operation %q of %q: %v: its number %d is %s; start another operation with an ID of its own",
		e.Entry.Op, e.Entry.Stream, ErrEnded, e.Entry.Seq, e.Entry.State)
}

// Is makes the error match ErrEnded and leasing.ErrReleased.
func (e *EndedError) Is(target error) bool {
	return target == ErrEnded || target == leasing.ErrReleased
}

// OpenError names the lowest open number that blocks the request. It matches ErrOpen.
type OpenError struct {
	Stream string
	Lowest int64
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("sequence: %q: %v: %d; wait for the number, or let a cleaner close the number", e.Stream, ErrOpen, e.Lowest)
}

// Is makes the error match ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// RefusedError says that the database has rolled back the transaction of a request, for instance at COMMIT because of a
// deferred constraint, or after a failed statement whose error the caller's write has ignored. It matches ErrRefused,
// and Err is the database's error. A repeated request gets the same answer, unless the data has changed.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("sequence: %v, and nothing was changed: %v", ErrRefused, e.Err)
}

// Is makes the error match ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// NotApplied makes abstractions.NotApplied report true.
func (e *RefusedError) NotApplied() bool { return true }

func (e *RefusedError) Unwrap() error { return e.Err }

// CheckpointError says that a reader can't continue from its place without skipping results. It matches
// ErrCheckpoint, and ErrNotFound.
type CheckpointError struct {
	Stream string
	From   int64  // the number from which the reader wants to continue
	Why    string // in words
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("sequence: read %q from %d: %v: %s; read again from the first number that is kept, and replace what was read before", e.Stream, e.From, ErrCheckpoint, e.Why)
}

// Is makes the error match ErrCheckpoint and ErrNotFound.
func (e *CheckpointError) Is(target error) bool {
	return target == ErrCheckpoint || target == ErrNotFound
}

// UnknownStream returns the error for a request to a stream that has not been created. It matches
// ErrUnknownStream, and leasing.ErrNotSetUp.
func UnknownStream(stream string) error {
	text := fmt.Sprintf("sequence: %v %q: create it once with the store's CreateStream", ErrUnknownStream, stream)
	return providerkit.WithText(text, errors.Join(ErrUnknownStream, leasing.ErrNotSetUp))
}

func invalid(field string, value any, want string) error {
	return &leasing.InvalidError{Field: field, Value: value, Want: want}
}
