package sequence

import (
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// The names below are defined in package seqstore, where stores find them too. Applications need only this package.

// Store keeps streams: package sqlsequence has it for PostgreSQL and SQLite, and memsequence for tests. Applications create
// streams with it, fill, seal and forget, and look after the manual queue; Stream, Cleaner and Reader do the rest.
type Store[Tx any] = seqstore.Store[Tx]

// Records is the part of a Store that reads.
type Records = seqstore.Records

// Write is the caller's own part of a transaction. It gets the entry as it is committed. It
// must use tx alone, and neither commit nor roll back.
type Write[Tx any] = seqstore.Write[Tx]

// What a stream consists of, and what is asked of its store.
type (
	// Entry is the record of one number.
	Entry = seqstore.Entry
	// State is where a number is in its life.
	State = seqstore.State
	// Work is what a writer has saved of an operation, and Phase how far it is.
	Work = seqstore.Work
	// Phase is NoWork, Partial or Completed.
	Phase = seqstore.Phase
	// Outcome is how a recovery ends.
	Outcome = seqstore.Outcome
	// Status is a summary of a stream.
	Status = seqstore.Status
	// Event is a change of a number, as the audit has it.
	Event = seqstore.Event
	// ManualItem is work that nobody could settle, for a person to decide about.
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
	Recovered  = seqstore.Recovered  // its work lives on under a later number: Entry.ReplacedBy
	Gap        = seqstore.Gap        // it has no result; Entry.Reason says why
	Filled     = seqstore.Filled     // it was a gap and got its result afterwards
	Sealed     = seqstore.Sealed     // it is a gap for good
)

// The phases of saved work, and the outcomes that a Step may want. Completed work can't be replaced.
const (
	NoWork    = seqstore.NoWork
	Partial   = seqstore.Partial
	Completed = seqstore.Completed

	OutcomeRecovered = seqstore.OutcomeRecovered // the work is committed under a new, later number
	OutcomeGap       = seqstore.OutcomeGap
)

// Reasons of a gap. A [Step] may give others.
const (
	ReasonReleased       = seqstore.ReasonReleased       // its writer gave it up
	ReasonExpired        = seqstore.ReasonExpired        // its lease ran out and there was nothing to recover
	ReasonRecoveryFailed = seqstore.ReasonRecoveryFailed // recovery failed Cleaner's MaxAttempts times
)

// MaxPayloadBytes bounds a payload, and saved work.
const MaxPayloadBytes = seqstore.MaxPayloadBytes

// The sentinels that errors of this package match with errors.Is. If the store is unreachable, or refuses a
// request, the error matches those of package leasing.
var (
	ErrLate          = seqstore.ErrLate          // the number is no longer the caller's, and nothing was changed
	ErrEnded         = seqstore.ErrEnded         // the operation's number is closed
	ErrOtherPayload  = seqstore.ErrOtherPayload  // the number is committed, with another payload
	ErrUnknownStream = seqstore.ErrUnknownStream // nobody has created the stream
	ErrOpen          = seqstore.ErrOpen          // something is open where nothing may be
	ErrRefused       = seqstore.ErrRefused       // the database has refused what the transaction wrote, and nothing was changed
	ErrCheckpoint    = seqstore.ErrCheckpoint    // a Reader's place is not one of the present stream
	ErrNotFound      = seqstore.ErrNotFound      // there is no such number, operation or item
)

// Errors that say more.
type (
	// LateCommitError says what became of a number whose commit came too late. It matches ErrLate.
	LateCommitError = seqstore.LateCommitError
	// EndedError says what became of an operation's number. It matches ErrEnded.
	EndedError = seqstore.EndedError
	// RefusedError has the answer of a database that has rolled a transaction back. It matches ErrRefused.
	RefusedError = seqstore.RefusedError
	// CheckpointError says why a Reader can't go on from its place. It matches ErrCheckpoint.
	CheckpointError = seqstore.CheckpointError
	// OpenError names the lowest open number that stands in the way. It matches ErrOpen.
	OpenError = seqstore.OpenError
)

func invalid(field string, value any, want string) error {
	return &leasing.InvalidError{Field: field, Value: value, Want: want}
}
