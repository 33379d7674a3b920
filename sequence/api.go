package sequence

import (
	"errors"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// The names below are aliases of names in package seqstore, which stores import. Applications need only this
// package.

// Store keeps streams: package sqlsequence implements it for PostgreSQL and SQLite, and memsequence for tests. Applications
// use a Store to create streams, to fill, seal and forget numbers, and to handle the manual queue. Stream, Cleaner and
// Reader do the rest.
type Store[Tx any] = seqstore.Store[Tx]

// Records is the part of a Store that reads.
type Records = seqstore.Records

// Write is the caller's own part of a transaction. It gets the entry in the form that will be
// committed. It must use only tx, and must neither commit nor roll back.
type Write[Tx any] = seqstore.Write[Tx]

// The parts of a stream, and requests to its store.
type (
	// Entry is the record of one number.
	Entry = seqstore.Entry
	// State is the state of a number.
	State = seqstore.State
	// Work is the saved work of an operation, and its Phase.
	Work = seqstore.Work
	// Phase is NoWork, Partial or Completed.
	Phase = seqstore.Phase
	// Outcome is the outcome of a recovery.
	Outcome = seqstore.Outcome
	// Status is a summary of a stream.
	Status = seqstore.Status
	// Event is a change to a number, as recorded in the audit.
	Event = seqstore.Event
	// ManualItem is work that could not be settled automatically, for a person to decide.
	ManualItem = seqstore.ManualItem
	// FillRequest gives a gap its result.
	FillRequest = seqstore.FillRequest
	// Settlement is the outcome of an Unsettled result.
	Settlement = seqstore.Settlement
)

// The states. Leased and Recovering are open, the others closed.
const (
	Leased     = seqstore.Leased     // a writer works on it, or has worked on it until its lease ran out
	Recovering = seqstore.Recovering // a cleaner has claimed it
	Committed  = seqstore.Committed  // it has its result
	Recovered  = seqstore.Recovered  // its work is committed under a later number: Entry.ReplacedBy
	Gap        = seqstore.Gap        // it has no result; Entry.Reason says why
	Filled     = seqstore.Filled     // it was a gap and got its result afterwards
	Sealed     = seqstore.Sealed     // it is a gap for good
)

// The phases of saved work, and the outcomes that a Step may choose. Completed work can't be
// replaced.
const (
	NoWork    = seqstore.NoWork
	Partial   = seqstore.Partial
	Completed = seqstore.Completed

	OutcomeRecovered = seqstore.OutcomeRecovered // the work is committed under a new, later number
	OutcomeGap       = seqstore.OutcomeGap
)

// Reasons of a gap. A [Step] may return others.
const (
	ReasonReleased       = seqstore.ReasonReleased       // its writer released it
	ReasonExpired        = seqstore.ReasonExpired        // its lease ran out and there was nothing to recover
	ReasonRecoveryFailed = seqstore.ReasonRecoveryFailed // recovery failed CleanerOptions.MaxAttempts times
)

// MaxPayloadBytes bounds a payload, and saved work.
const MaxPayloadBytes = seqstore.MaxPayloadBytes

// The sentinel errors, which errors.Is finds in the errors from this package. If the store is unreachable, or refuses a request,
// the error matches a sentinel of package leasing.
var (
	ErrLate          = seqstore.ErrLate          // the number is no longer the caller's, and nothing was changed
	ErrEnded         = seqstore.ErrEnded         // the operation's number is closed
	ErrOtherPayload  = seqstore.ErrOtherPayload  // the number is committed, with another payload
	ErrUnknownStream = seqstore.ErrUnknownStream // the stream has not been created
	ErrOpen          = seqstore.ErrOpen          // a number that must be closed is open
	ErrRefused       = seqstore.ErrRefused       // the database has refused the transaction's writes, and nothing was changed
	ErrCheckpoint    = seqstore.ErrCheckpoint    // a Reader's place does not exist in the present stream
	ErrNotFound      = seqstore.ErrNotFound      // there is no such number, operation or item
)

// Errors with details.
type (
	// LateCommitError describes the number of a commit that came too late. It matches ErrLate.
	LateCommitError = seqstore.LateCommitError
	// EndedError describes the closed number of an operation. It matches ErrEnded.
	EndedError = seqstore.EndedError
	// RefusedError holds the error of a database that has rolled back a transaction. It matches
	// ErrRefused.
	RefusedError = seqstore.RefusedError
	// CheckpointError says why a Reader can't continue from its place. It matches ErrCheckpoint.
	CheckpointError = seqstore.CheckpointError
	// OpenError names the lowest open number that blocks the request. It matches ErrOpen.
	OpenError = seqstore.OpenError
)

func invalid(field string, value any, want string) error {
	return &leasing.InvalidError{Field: field, Value: value, Want: want}
}

// isAnswer reports whether an error is a final answer from a store.
func isAnswer(err error) bool {
	for _, answer := range []error{ErrLate, ErrEnded, ErrOtherPayload, ErrUnknownStream, ErrOpen, ErrNotFound, ErrRefused} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return abstractions.NotApplied(err) && !errors.Is(err, leasing.ErrUnavailable)
}
