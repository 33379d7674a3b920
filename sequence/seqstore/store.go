// Package seqstore defines the interface of a store of package sequence, with its requests, records and errors. It also
// has helpers that answer repeated and late requests. Package sequencetest checks a store.
package seqstore

import (
	"cmp"
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Store keeps streams. Each method is one atomic transaction, and uses the store's own clock. Tx is
// the transaction that the caller's own write joins.
//
// The contract, checked by package sequencetest:
//
//   - Methods are safe for concurrent use and end soon after the end of ctx. They validate requests
//     with the Validate methods before anything is sent.
//   - A transaction locks the stream's row before an entry, and checks the method's guard, stated
//     below, before it changes anything.
//   - A request whose guard fails has no effect, and write is not called. An error from write is returned unchanged, and nothing
//     is changed. If the connection has broken during write, or write has outlasted its lease, the error is a
//     leasing.ErrUnavailable instead, and the request may be repeated.
//   - A process that is paused or cut off between two statements blocks others at most until its lease or claim ends,
//     if the database can detect the pause: see the store's documentation. A refusal by the database, at COMMIT for
//     instance, is a *RefusedError.
//   - When the store's clock goes back, a lease, a claim or a pause that was set while the clock was ahead lasts no longer
//     than its full duration, counted from the next Claim.
//   - After any error, except those of this package and those for which abstractions.NotApplied
//     reports true, the outcome is unknown, and the request may be repeated.
type Store[Tx any] interface {
	Records

	// CreateStream makes a stream that begins with number 1. It does nothing if the stream exists.
	CreateStream(ctx context.Context, stream string) error

	// NewEpoch begins an epoch of a stream, and returns its name, which is unique. Call it when a backup has been
	// restored, before writers start: readers whose place belongs to an earlier epoch then get a *CheckpointError. The
	// first epoch's name is "".
	NewEpoch(ctx context.Context, stream string) (string, error)

	// Lease issues the next number to an operation. The same operation gets the same number: while
	// the lease lasts, Lease extends it, and never shortens it; after that Lease returns an
	// *EndedError. In recovery mode durations are doubled: see Granted.
	Lease(ctx context.Context, req LeaseRequest) (Entry, error)
	// Renew makes a lease last for the duration from now on, and never shortens it: the holder may
	// trust a longer duration that recovery mode has granted. Guard: the number is leased with this
	// token, and the lease has not run out. Renew returns the granted duration, or a *LateCommitError if the guard fails.
	Renew(ctx context.Context, req RenewRequest) (time.Duration, error)
	// Save stores work for a number. Guard for partial work: the number is leased with this token,
	// even if the lease has run out. Completed work is accepted as long as the number is open, and
	// is never replaced: saving it twice is not an error if the data is the same. Completed work
	// ends a claim of the number at once, since its cleaner has not seen the work: the guard of
	// Resolve then fails, and the next claim returns the work.
	Save(ctx context.Context, req SaveRequest) error
	// Commit closes a number with its payload. Guard: the number is leased with this token, the
	// lease has not run out, and with InOrder no lower number is open (else an *OpenError). If the
	// number is committed already, Commit writes nothing, and returns nil for the same token and
	// payload, else ErrOtherPayload.
	Commit(ctx context.Context, req CommitRequest, write Write[Tx]) (Entry, error)
	// CommitAndLease commits a number and leases the next one, for another operation of the same stream, in one
	// transaction. The guard is that of Commit. Nothing is leased, and the second entry is zero, if the commit
	// was made before, if the next operation already has a number, if the counter is locked (a transaction that
	// has an entry locked never waits for the counter), or if one transaction is no cheaper than two for the
	// store. A Lease must then request the next number.
	CommitAndLease(ctx context.Context, req CommitRequest, next LeaseRequest, write Write[Tx]) (done, leased Entry, err error)
	// Release turns a number into a gap. Guard: the number is leased with this token. It is not an error if the guard fails: the
	// number is then no longer the caller's. A number with completed work does not become a gap: its lease ends at once, and a
	// cleaner commits the work.
	Release(ctx context.Context, req ReleaseRequest) error

	// Claim gives a cleaner the lowest number whose lease has run out, or whose claim has lapsed,
	// and raises its token. It returns false if no number can be claimed. Guard: no lower number
	// has a live claim, and NotBefore has passed.
	Claim(ctx context.Context, req ClaimRequest) (Entry, bool, error)
	// ReleaseClaim makes the claim with the ID lapse at once. It is not an error if no such claim
	// exists.
	ReleaseClaim(ctx context.Context, stream, id string) error
	// ExtendClaim makes a claim last for the duration from now on. Guard: the number is recovering
	// with this token, and the claim has not lapsed.
	ExtendClaim(ctx context.Context, req RenewRequest) error
	// Resolve ends a claim. The guard is that of ExtendClaim, and is checked before a new number is
	// issued. See Outcome.
	Resolve(ctx context.Context, req ResolveRequest, write Write[Tx]) (Entry, error)

	// Fill gives a gap its result. Guard: the number is a gap of this operation above the seal. If
	// the number was filled or committed with the same payload, Fill writes nothing and returns
	// nil.
	Fill(ctx context.Context, req FillRequest, write Write[Tx]) (Entry, error)
	// Seal makes the gaps up to a number final, and returns the seal. The seal never goes
	// back. upTo 0 means the watermark. Guard: no number up to upTo is open (else an *OpenError),
	// and all of them were issued.
	Seal(ctx context.Context, stream string, upTo int64) (int64, error)
	// Forget deletes up to limit of the lowest entries that are cleaned, and at or below both upTo
	// and the seal. It returns the number of deleted entries.
	Forget(ctx context.Context, stream string, upTo int64, limit int) (int, error)

	// EnterRecovery puts a stream into recovery mode for the given time from now, and reports
	// whether this call started that mode. It is idempotent, and never moves the end of recovery
	// mode to an earlier time.
	EnterRecovery(ctx context.Context, stream string, lasts time.Duration) (bool, error)
	// LeaveRecovery ends recovery mode, and reports whether the stream was in recovery mode.
	LeaveRecovery(ctx context.Context, stream string) (bool, error)

	// Cleaned records that the hooks have succeeded for a closed number.
	Cleaned(ctx context.Context, stream string, seq int64) error

	// Enqueue puts work into the manual queue. The same number, operation and payload
	// are queued once.
	Enqueue(ctx context.Context, item ManualItem) error
	// Expire ends an open number's lease, claim, and pause after a failure at once, so that a cleaner can claim the number.
	// It is for operators, for example after the store's clock was ahead. The holder's next request is then refused as late. It
	// is not an error if the number is closed.
	Expire(ctx context.Context, stream string, seq int64) error

	// ResolveManual marks an item as decided. A second call keeps the first decision.
	ResolveManual(ctx context.Context, id int64, by string) error
}

// Records is the part of a Store that reads.
type Records interface {
	// Read returns entries in order, and the bound up to which the stream may be read.
	Read(ctx context.Context, req ReadRequest) (Page, error)
	// Find returns the entry of an operation's own number, or ErrNotFound if the operation has no
	// number.
	Find(ctx context.Context, stream, op string) (Entry, error)
	// Events returns the audit of some numbers, with each number's events in chronological order, or a
	// leasing.ErrUnsupported if the store keeps no audit. Each event was written by the transaction that made
	// the change.
	Events(ctx context.Context, stream string, from, to int64) ([]Event, error)
	// Status returns a summary of a stream.
	Status(ctx context.Context, stream string) (Status, error)
	// LowestOpen returns the lowest open number, or 0 if no number is open.
	LowestOpen(ctx context.Context, stream string) (int64, error)
	// Manual returns the undecided items of the manual queue, from oldest to newest.
	Manual(ctx context.Context, stream string, limit int) ([]ManualItem, error)
	// FindManual returns an item of the manual queue, decided or not, or ErrNotFound if the ID is
	// unknown.
	FindManual(ctx context.Context, id int64) (ManualItem, error)
	// Watch returns a channel that gets a wake-up after a number of the stream was closed, until ctx ends. A wake-up may
	// be lost, so a waiter must also poll.
	Watch(ctx context.Context, stream string) (<-chan struct{}, error)
}

// Write is the caller's own part of a transaction. It gets the entry in the form that will be
// committed. It must use only tx, and must neither commit nor roll back.
type Write[Tx any] func(ctx context.Context, tx Tx, e Entry) error

// LeaseRequest asks for a number.
type LeaseRequest struct {
	Stream, Op, Kind, Owner string
	Duration                time.Duration
}

// RenewRequest extends a lease or a claim.
type RenewRequest struct {
	Stream   string
	Seq      int64
	Token    int64
	Duration time.Duration
}

// SaveRequest stores work.
type SaveRequest struct {
	Stream string
	Seq    int64
	Token  int64
	Work   Work
}

// CommitRequest closes a number.
type CommitRequest struct {
	Stream  string
	Seq     int64
	Token   int64
	Payload []byte
	InOrder bool
}

// ReleaseRequest releases a number.
type ReleaseRequest struct {
	Stream string
	Seq    int64
	Token  int64
}

// ClaimRequest asks for the lowest number to recover.
type ClaimRequest struct {
	Stream, Owner string
	ID            string // for ReleaseClaim; unique, or ""
	Duration      time.Duration
}

// Outcome is the outcome of a claim.
type Outcome string

// The outcomes.
const (
	// OutcomeRecovered issues a new number, already committed, for the work, so that a recovery
	// needs no lease, which could run out. The old number is Recovered, and names the new number.
	OutcomeRecovered Outcome = "recovered"
	// OutcomeGap makes a gap.
	OutcomeGap Outcome = "gap"
	// OutcomeFailed keeps the number for another attempt, after a pause.
	OutcomeFailed Outcome = "failed"
)

// ResolveRequest ends a claim.
type ResolveRequest struct {
	Stream  string
	Seq     int64
	Token   int64
	Outcome Outcome
	// Payload is the payload of the new number, and Owner is the label of the recovering cleaner.
	Payload []byte
	Owner   string
	// Reason is the reason of a gap, or the error of a failure.
	Reason string
	// RetryAfter is the pause after a failure. After MaxAttempts failures, unless that is 0, the
	// number becomes a gap with ReasonRecoveryFailed instead.
	RetryAfter  time.Duration
	MaxAttempts int
	// Uncleaned marks the closed number for the cleaner's hooks.
	Uncleaned bool
}

// FillRequest gives a gap its result.
type FillRequest struct {
	Stream  string
	Seq     int64
	Op      string
	Payload []byte
}

// ReadRequest selects up to Limit entries from From on, in order, up to the watermark or the seal. States, unless
// empty, selects entries in these states, even above that bound, for operators.
type ReadRequest struct {
	Stream string
	From   int64
	Limit  int
	Sealed bool // stop at the seal
	States []State
	// Uncleaned selects entries whose hooks are due instead, even above the bound.
	Uncleaned bool
}

// Page is a page of a stream's entries.
type Page struct {
	Entries []Entry
	// Through is the watermark, or the seal, at the time of the read.
	Through int64
	// Last is the last number that was issued by that time; 0 if the stream is new.
	Last int64
	// Epoch is the epoch of the stream.
	Epoch string
	// Before is the Mark of the entry before ReadRequest.From; "" if no such entry is kept.
	Before string
}

// Granted returns the duration of a lease that was requested with d: doubled in recovery mode, but
// not beyond MaxRecoveryDuration.
func Granted(d time.Duration, recovery bool) time.Duration {
	if !recovery {
		return d
	}
	return max(d, min(2*d, MaxRecoveryDuration))
}

// MaxDuration keeps times within the range of every store.
const MaxDuration = 10 * 365 * 24 * time.Hour

// ValidateText reports whether a name, ID or label can be stored: UTF-8 without control
// characters, of bounded length.
func ValidateText(field, text string, limit int, empty bool) error {
	bad := !utf8.ValidString(text)
	for _, r := range text {
		bad = bad || unicode.IsControl(r)
	}
	if bad || len(text) > limit || text == "" && !empty {
		return invalid(field, text, fmt.Sprintf("UTF-8 of 1 to %d bytes, without control characters", limit))
	}
	return nil
}

func validateDuration(d time.Duration) error {
	if d < time.Millisecond || d > MaxDuration {
		return invalid("Duration", d, fmt.Sprintf("1ms to %v", MaxDuration))
	}
	return nil
}

func validatePayload(field string, payload []byte) error {
	if len(payload) > MaxPayloadBytes {
		return invalid(field, fmt.Sprintf("of %d bytes", len(payload)), fmt.Sprintf("at most %d: store the data elsewhere, and commit a reference", MaxPayloadBytes))
	}
	return nil
}

// Validate checks a request.
func (r *LeaseRequest) Validate() error {
	return cmp.Or(
		ValidateText("Stream", r.Stream, MaxStreamBytes, false), ValidateText("Op", r.Op, MaxOpBytes, false),
		ValidateText("Kind", r.Kind, MaxKindBytes, true), ValidateText("Owner", r.Owner, MaxKindBytes*2, true),
		validateDuration(r.Duration))
}

// Validate checks a request.
func (r *RenewRequest) Validate() error { return validateDuration(r.Duration) }

// Validate checks a request.
func (r *ClaimRequest) Validate() error {
	return cmp.Or(ValidateText("Owner", r.Owner, MaxKindBytes*2, true), ValidateText("ID", r.ID, MaxKindBytes, true), validateDuration(r.Duration))
}

// Validate checks a request.
func (r *SaveRequest) Validate() error {
	if r.Work.Phase != Partial && r.Work.Phase != Completed {
		return invalid("Work.Phase", string(r.Work.Phase), "partial or completed")
	}
	return validatePayload("Work.Data", r.Work.Data)
}

// Validate checks a request.
func (r *CommitRequest) Validate() error {
	if r.Token <= 0 {
		return invalid("Token", r.Token, "the token of a lease: lease the number first")
	}
	return validatePayload("Payload", r.Payload)
}

// Validate checks a request.
func (r *ResolveRequest) Validate() error {
	switch r.Outcome {
	case OutcomeRecovered, OutcomeGap, OutcomeFailed:
	default:
		return invalid("Outcome", string(r.Outcome), "recovered, gap or failed")
	}
	if r.RetryAfter < 0 || r.RetryAfter > MaxDuration {
		return invalid("RetryAfter", r.RetryAfter, fmt.Sprintf("0 to %v", MaxDuration))
	}
	return validatePayload("Payload", r.Payload)
}

// Validate checks a request.
func (r *FillRequest) Validate() error { return validatePayload("Payload", r.Payload) }

// Validate checks an item.
func (i *ManualItem) Validate() error { return validatePayload("Payload", i.Payload) }
