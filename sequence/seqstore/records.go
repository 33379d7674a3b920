package seqstore

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"
)

// State is the state of a number.
type State string

// The states. Leased and Recovering are open, the others closed.
const (
	Leased     State = "leased"     // a writer works on it, or has worked on it until its lease ran out
	Recovering State = "recovering" // a cleaner has claimed it
	Committed  State = "committed"  // it has its result
	Recovered  State = "recovered"  // its work is committed under a later number: Entry.ReplacedBy
	Gap        State = "gap"        // it has no result; Entry.Reason says why
	Filled     State = "filled"     // it was a gap and got its result afterwards
	Sealed     State = "sealed"     // it is a gap for good
)

// FirstToken is a number's token until its first claim.
const FirstToken = 1

// Open reports whether a number in this state still holds back the watermark.
func (s State) Open() bool { return s == Leased || s == Recovering }

// Reasons of a gap. A Step of package sequence may return others.
const (
	ReasonReleased       = "released"        // its writer released it
	ReasonExpired        = "expired"         // its lease ran out and there was nothing to recover
	ReasonRecoveryFailed = "recovery_failed" // recovery failed ResolveRequest.MaxAttempts times
)

// Entry is the record of one number. Its times are the store's: compare them with each
// other, and not with this process's clock. Fields that don't concern its State are zero.
type Entry struct {
	Stream string
	Seq    int64
	Op     string // ID of the operation
	Kind   string
	Owner  string // a readable label of the writer
	State  State
	Token  int64 // the fencing token; rises with every claim

	LeasedAt  time.Time
	ExpiresAt time.Time // of the lease; kept after its end
	ClosedAt  time.Time
	FilledAt  time.Time
	Renewals  int

	ClaimID    string
	ClaimOwner string
	ClaimUntil time.Time
	Attempts   int       // failed recoveries
	NotBefore  time.Time // no claim before this time
	LastError  string    // of the latest failed recovery

	Origin     int64 // the number whose work this number has taken over; 0: none
	ReplacedBy int64 // the number that has this number's work; 0: none
	Reason     string
	Payload    []byte
	Work       Work

	// Epoch is the epoch of the stream: see Store.NewEpoch. Only Records.Read sets this field.
	Epoch string

	// Uncleaned says that the cleaner's hooks have not all succeeded yet.
	Uncleaned bool
}

// Event is a change to a number, as recorded in the audit: the new State, or EventFailed.
type Event struct {
	At    time.Time // the store's
	Seq   int64
	Event string
	Who   string // its writer or its cleaner; "" for a seal
	Token int64
}

// EventFailed is a failed recovery, after which the number waits for another attempt.
const EventFailed = "failed"

// Phase is the progress of saved work.
type Phase string

// The phases. Completed work can't be replaced.
const (
	NoWork    Phase = ""
	Partial   Phase = "partial"
	Completed Phase = "completed"
)

// Work is the saved work of an operation.
type Work struct {
	Phase Phase
	Data  []byte
}

// Status is a summary of a stream.
type Status struct {
	Stream    string
	Now       time.Time // the store's
	Last      int64     // the last number that was issued; 0: none
	Watermark int64     // no number up to here is open
	Sealed    int64     // no number up to here changes
	Open      int       // leased and recovering
	Expired   int       // leased, and run out
	Claimable int       // expired, or with a lapsed claim, and due for a recovery
	Gaps      int       // that may still be filled
	// RecoveryUntil is the end of recovery mode, or zero outside recovery mode.
	RecoveryUntil time.Time
}

// ManualItem is work that could not be settled automatically, for a person to decide.
type ManualItem struct {
	ID         int64
	Stream     string
	Seq        int64
	Op         string
	Payload    []byte
	Reason     string
	CreatedAt  time.Time
	ResolvedAt time.Time // zero until a person has decided
	ResolvedBy string
}

// Bounds, in bytes.
const (
	MaxStreamBytes  = 100     // of a stream's name
	MaxOpBytes      = 200     // of an operation's ID
	MaxKindBytes    = 100     // of a kind, a reason, an owner
	MaxPayloadBytes = 1 << 20 // of a payload, and of saved work
)

// MaxRecoveryDuration caps the durations that recovery mode doubles: 10 minutes. A longer
// requested duration is granted unchanged.
const MaxRecoveryDuration = 10 * time.Minute

// Clone returns a copy that shares no bytes with e.
func (e Entry) Clone() Entry {
	e.Payload, e.Work.Data = bytes.Clone(e.Payload), bytes.Clone(e.Work.Data)
	return e
}

// Mark distinguishes an entry from other entries of the same number: a stream that was restored from a backup issues and
// closes numbers a second time. A gap keeps its Mark when it is filled or sealed.
func (e Entry) Mark() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %d %d %d", e.Seq, e.Op, e.Origin, e.LeasedAt.UnixMicro(), e.ClosedAt.UnixMicro()))
	return fmt.Sprintf("%d-%s-%x", e.Seq, e.Epoch, sum[:8])
}

// Bare returns e without payload and work, for use in an error.
func (e Entry) Bare() Entry {
	e.Payload, e.Work.Data = nil, nil
	return e
}
