package seqstore

import (
	"bytes"
	"fmt"
	"time"
)

// The functions below make a Store's answer to a request whose guard has failed, based on the entry at that time.

// Late returns the error for a request that came too late.
func Late(op string, e Entry, now time.Time) error {
	return &LateCommitError{Op: op, Entry: e.Bare(), Expired: e.State == Leased && !e.ExpiresAt.After(now)}
}

// Repeated returns nil if a request repeats one that succeeded, ErrOtherPayload if only its payload
// differs, and err otherwise. same says that e is the result of the caller's own request.
func Repeated(e Entry, payload []byte, same bool, err error) error {
	switch {
	case same && bytes.Equal(e.Payload, payload):
		return nil
	case same:
		return fmt.Errorf("sequence: commit %d of %q: %w: it belongs to operation %q; lease another number for another result", e.Seq, e.Stream, ErrOtherPayload, e.Op)
	}
	return err
}

// CommittedBy reports whether a number was committed under a token.
func CommittedBy(e Entry, token int64) bool {
	return e.State == Committed && e.Origin == 0 && e.Token == token
}

// RecoveredBy reports whether a number was recovered by the claim of a repeated request.
func RecoveredBy(e Entry, req ResolveRequest) bool {
	return req.Outcome == OutcomeRecovered && e.State == Recovered && e.Token == req.Token
}

// FilledBy reports whether a number has a result of the requesting operation.
func FilledBy(e Entry, req FillRequest) bool {
	return (e.State == Filled || e.State == Committed) && e.Op == req.Op
}

// SavedBy reports whether completed work was saved by an earlier attempt of a request.
func SavedBy(e Entry, req SaveRequest) bool {
	return req.Work.Phase == Completed && e.Work.Phase == Completed && bytes.Equal(e.Work.Data, req.Work.Data)
}

// NotFound returns the error for a request about a number, or an operation, that does not exist.
func NotFound(stream, what string) error {
	return fmt.Errorf("sequence: %s of %q: %w: it was never leased, or is forgotten; lease a number first", what, stream, ErrNotFound)
}

// NotIssued returns the error for a seal above the last number.
func NotIssued(upTo int64) error { return invalid("upTo", upTo, "a number that was issued") }
