package leasing

import "github.com/distributedleasing/leasing/abstractions"

// The names below are defined in package abstractions, where providers find
// them too. Applications need only this package.

// Manager acquires leases from one provider and looks after them. NewManager
// makes one. See abstractions.Manager for its methods.
type Manager = abstractions.Manager

// Lease is a name held. See abstractions.Lease for its methods.
type Lease = abstractions.Lease

// Provider is a backend, opened by one of the modules under providers.
type Provider = abstractions.Provider

// Capabilities are facts about a backend.
type Capabilities = abstractions.Capabilities

// Lateness bounds how long a backend may take to free an expired lease.
type Lateness = abstractions.Lateness

// What calls take and return.
type (
	// AcquireOptions configure one lease.
	AcquireOptions = abstractions.AcquireOptions
	// BreakOptions configure a Break.
	BreakOptions = abstractions.BreakOptions
	// BreakResult says what a Break met.
	BreakResult = abstractions.BreakResult
	// ListOptions configure a List.
	ListOptions = abstractions.ListOptions
	// Handover is a lease on its way from one process to another.
	Handover = abstractions.Handover
	// Record is what a backend knows about a name at one moment.
	Record = abstractions.Record
	// Health is a report on a manager and its backend.
	Health = abstractions.Health
	// HealthStatus sums a report up.
	HealthStatus = abstractions.HealthStatus
)

// What a report says: see HealthStatus.
const (
	Healthy   = abstractions.Healthy
	Degraded  = abstractions.Degraded
	Unhealthy = abstractions.Unhealthy
)

// What observers get.
type (
	// Observer is called with events.
	Observer = abstractions.Observer
	// Event is one thing that happened to a lease.
	Event = abstractions.Event
	// EventKind says what happened.
	EventKind = abstractions.EventKind
)

// The kinds of events.
const (
	EventAcquired      = abstractions.EventAcquired
	EventRenewed       = abstractions.EventRenewed
	EventRenewalFailed = abstractions.EventRenewalFailed
	EventLost          = abstractions.EventLost
	EventReleased      = abstractions.EventReleased
	// EventHandedOver: HandOver ended the lease in this process; others still find
	// the name taken.
	EventHandedOver = abstractions.EventHandedOver
	// EventBroken: this manager's Break ended somebody's lease.
	EventBroken = abstractions.EventBroken
	// EventDropped: the observer has hung, and missed events.
	EventDropped = abstractions.EventDropped
)

// The errors that every error of this package and of every provider matches
// with errors.Is. ErrHeld and ErrLost are different things: the first is
// somebody else's lease met while acquiring, the second one's own that ended.
var (
	// ErrHeld: the name is somebody else's at present. Carried by *HeldError.
	ErrHeld = abstractions.ErrHeld
	// ErrLost: the lease has ended without being released. Carried by *LostError.
	ErrLost = abstractions.ErrLost
	// ErrReleased: the lease was given up.
	ErrReleased = abstractions.ErrReleased
	// ErrClosed: the manager or provider was closed.
	ErrClosed = abstractions.ErrClosed
	// ErrUnavailable: the backend did not answer, or could not.
	ErrUnavailable = abstractions.ErrUnavailable
	// ErrThrottled: the backend refused for now. It is also ErrUnavailable.
	ErrThrottled = abstractions.ErrThrottled
	// ErrInvalid: the request can't work as it is; nothing was sent.
	ErrInvalid = abstractions.ErrInvalid
	// ErrDenied: the backend refused the identity or its rights.
	ErrDenied = abstractions.ErrDenied
	// ErrNotSetUp: the backend lacks something that must be created first.
	ErrNotSetUp = abstractions.ErrNotSetUp
	// ErrStale: a fencing token is not, or no longer, the name's latest.
	ErrStale = abstractions.ErrStale
	// ErrUnsupported: the provider lacks an optional ability.
	ErrUnsupported = abstractions.ErrUnsupported
)

// The types behind them, for errors.As.
type (
	// Error says which operation failed, where and why.
	Error = abstractions.Error
	// HeldError matches ErrHeld and describes the holder.
	HeldError = abstractions.HeldError
	// LostError matches ErrLost and tells the reason.
	LostError = abstractions.LostError
	// LostReason says how a lease ended without a release.
	LostReason = abstractions.LostReason
	// ThrottledError matches ErrThrottled and ErrUnavailable.
	ThrottledError = abstractions.ThrottledError
	// InvalidError matches ErrInvalid and names the field.
	InvalidError = abstractions.InvalidError
)

// The reasons of a LostError.
const (
	// LostExpired: the time it was trusted for ran out before a renewal succeeded.
	LostExpired = abstractions.LostExpired
	// LostTaken: the backend shows another holder.
	LostTaken = abstractions.LostTaken
	// LostBroken: somebody broke it.
	LostBroken = abstractions.LostBroken
	// LostGone: the backend no longer knows it.
	LostGone = abstractions.LostGone
	// LostRenewalLimit: it ran out after its last permitted renewal.
	LostRenewalLimit = abstractions.LostRenewalLimit
	// LostClosed: its manager was closed while it was in use, and it ran out.
	LostClosed = abstractions.LostClosed
)

// Infinite is the TTL of a lease that never expires by itself.
const Infinite = abstractions.Infinite

// Bounds that hold on every backend.
const (
	// MaxNameBytes is the longest name of a lease.
	MaxNameBytes = abstractions.MaxNameBytes
	// MaxOwnerBytes is the longest owner.
	MaxOwnerBytes = abstractions.MaxOwnerBytes
	// MaxMetadataBytes bounds the keys and values of a lease's metadata, added up.
	MaxMetadataBytes = abstractions.MaxMetadataBytes
	// MaxToken bounds fencing tokens: below 2^53, so that they survive formats
	// that count in floating point.
	MaxToken = abstractions.MaxToken
)

// ValidateName reports whether a lease may be called name: UTF-8, 1 to
// MaxNameBytes bytes, no control characters.
func ValidateName(name string) error { return abstractions.ValidateName(name) }
