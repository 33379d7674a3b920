package leasing

import "github.com/distributedleasing/leasing/abstractions"

// The names below are defined in package abstractions, where providers find
// them too. Applications need only this package.

// Manager acquires leases from one provider, renews them, notices their loss, and
// queues those who wait. NewManager makes one; it is safe for concurrent use.
//
//	Acquire(ctx, name, options)     waits for the name
//	TryAcquire(ctx, name, options)  asks once
//	Adopt(ctx, handover, options)   goes on with a lease of another process
//	Inspect(ctx, name)              shows who holds a name
//	Waiters(ctx, name)              shows who waits for it
//	List(ctx, options)              iterates over records
//	Break(ctx, name, options)       ends somebody's lease
//	Subscribe(observer)             tells events
//	Health(ctx)                     reports on backend and leases
//	Capabilities()                  says what the backend can do
//	Close(ctx)                      ends the work under all leases, waits for it, lets go
//
// Options that are nil are the manager's defaults. Package abstractions documents each
// method: go doc github.com/distributedleasing/leasing/abstractions.Manager
type Manager = abstractions.Manager

// Lease is a name held. It is safe for concurrent use.
//
//	Name() ID() Owner() AcquiredAt()  identify it
//	Token()                 is the fencing token: hand it to what the lease protects
//	Context() Done() Err()  end with the lease; Err is then a *LostError, or matches ErrReleased
//	Remaining() TTL()       are the trust that is left and the time that was granted
//	Renew(ctx)              renews now; the manager does it by itself
//	SetMetadata(ctx, metadata) Metadata()  change and show what others see
//	Release(ctx)            gives the name up, once the work is over
//	HandOver(ctx)           ends it here, for another process to adopt
//	Renewals()              counts the successful ones
//
// Package abstractions documents each method:
// go doc github.com/distributedleasing/leasing/abstractions.Lease
type Lease = abstractions.Lease

// Provider is a backend, opened by one of the modules under providers. Pass it to
// NewManager, and close it after the manager. Its own methods are not for
// applications: they make single attempts, and nobody renews what they grant.
type Provider = abstractions.Provider

// Capabilities are facts about a backend: the bounds of a TTL, whose clock decides,
// whether a lease may be infinite. A bound of 0 is none.
type Capabilities = abstractions.Capabilities

// Lateness bounds how long after its TTL a backend that is up may still refuse the name
// of a dead holder to others: a fixed time plus a share of the TTL.
type Lateness = abstractions.Lateness

// What calls take and return. A zero field means the default.
type (
	// AcquireOptions configure one lease: TTL, RenewFraction or RenewCadence,
	// NoAutoRenew, MaxRenewals (0: no limit), WaitLimit (0: until ctx ends), Metadata
	// and an Observer. What is zero is taken from Options.
	AcquireOptions = abstractions.AcquireOptions
	// BreakOptions say who breaks a lease and why (Actor, Reason), which one is meant
	// (IfToken; 0: whichever there is), and whether the name is free at once
	// (Immediate) or when the lease has run out.
	BreakOptions = abstractions.BreakOptions
	// BreakResult says whether a Break met a lease, its token, and how long the name
	// stays taken (0: it is free now).
	BreakResult = abstractions.BreakResult
	// ListOptions choose what List shows: names with a Prefix ("": all), or only those
	// that are held.
	ListOptions = abstractions.ListOptions
	// Handover is a lease on its way from one process to another: its name, ID and
	// token. It reads and writes as JSON. Whoever knows it can renew and release the
	// lease.
	Handover = abstractions.Handover
	// Record is what a backend knows about a name at one moment. Its times are the
	// backend's: compare them with each other, and not with this process's clock. On a
	// free name only Name, Token and Now are promised.
	Record = abstractions.Record
	// Waiting is a claim that waits for a name: its ID, its owner, since when, and the
	// backend's clock at the read. Its times are the backend's, too.
	Waiting = abstractions.Waiting
	// Health is a report on a manager and its backend. It reads and writes as JSON.
	Health = abstractions.Health
	// HealthStatus sums a report up: Healthy, Degraded or Unhealthy.
	HealthStatus = abstractions.HealthStatus
)

// Healthy: the backend answers, every renewal is on time. Degraded: renewals or
// requests fail, leases were lost within the last minute, or an observer is stuck.
// Unhealthy: the backend does not answer, or the manager is closed.
const (
	Healthy   = abstractions.Healthy
	Degraded  = abstractions.Degraded
	Unhealthy = abstractions.Unhealthy
)

// What observers get.
type (
	// Observer is called with events, in order for each lease, in a goroutine of its
	// own: it may block, and delays no lease.
	Observer = abstractions.Observer
	// Event is one thing that happened to a lease. Fields that don't concern its Kind
	// are zero. Times and durations are by this process's clock.
	Event = abstractions.Event
	// EventKind says what happened.
	EventKind = abstractions.EventKind
)

// The kinds of events.
const (
	// EventAcquired: this manager has the lease, acquired or adopted.
	EventAcquired = abstractions.EventAcquired
	// EventRenewed: a renewal succeeded.
	EventRenewed = abstractions.EventRenewed
	// EventRenewalFailed: a renewal failed; the lease is still held.
	EventRenewalFailed = abstractions.EventRenewalFailed
	// EventAcquireFailed: the backend did not answer an Acquire, which asks again.
	EventAcquireFailed = abstractions.EventAcquireFailed
	// EventLost: the lease ended without a release.
	EventLost = abstractions.EventLost
	// EventReleased: the lease was released; Err is set if the backend could not be told.
	EventReleased = abstractions.EventReleased
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
	// ErrReleased: the lease was given up, or handed over.
	ErrReleased = abstractions.ErrReleased
	// ErrClosed: the manager or provider was closed.
	ErrClosed = abstractions.ErrClosed
	// ErrUnavailable: the backend did not answer, or could not. Unless it is also
	// ErrThrottled, the request may have been applied.
	ErrUnavailable = abstractions.ErrUnavailable
	// ErrThrottled: the backend refused for now and did nothing. It is also
	// ErrUnavailable.
	ErrThrottled = abstractions.ErrThrottled
	// ErrInvalid: the request can't work as it is; nothing was sent. Carried by
	// *InvalidError.
	ErrInvalid = abstractions.ErrInvalid
	// ErrDenied: the backend refused the identity or its rights.
	ErrDenied = abstractions.ErrDenied
	// ErrNotSetUp: the backend lacks something that must be created first (a table, a
	// container), or has it in a version this code doesn't know.
	ErrNotSetUp = abstractions.ErrNotSetUp
	// ErrStale: a fencing token is not, or no longer, the name's latest.
	ErrStale = abstractions.ErrStale
	// ErrUnsupported: the provider lacks an optional ability.
	ErrUnsupported = abstractions.ErrUnsupported
)

// The types behind them, for errors.As.
type (
	// Error says which operation failed, at which provider, for which name, and why.
	Error = abstractions.Error
	// HeldError matches ErrHeld and describes the holder. ByThisManager says that it
	// is a lease of the manager that asked.
	HeldError = abstractions.HeldError
	// LostError matches ErrLost and tells the reason, and of a lease that was broken by
	// whom and why, where the backend tells. It is the cause of a lost lease's context.
	LostError = abstractions.LostError
	// LostReason says how a lease ended without a release.
	LostReason = abstractions.LostReason
	// ThrottledError matches ErrThrottled and ErrUnavailable. RetryAfter is 0 if the
	// backend did not say when to ask again.
	ThrottledError = abstractions.ThrottledError
	// InvalidError matches ErrInvalid and names the field, its value and what is wanted.
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

// Infinite is the TTL of a lease that never expires by itself. It ends by Release or
// Break alone, so a holder that crashes blocks the name until somebody breaks it.
const Infinite = abstractions.Infinite

// Bounds that hold on every backend, in bytes of UTF-8.
const (
	// MaxNameBytes is the longest name of a lease: 512.
	MaxNameBytes = abstractions.MaxNameBytes
	// MaxOwnerBytes is the longest owner, and the longest Actor of a break: 256.
	MaxOwnerBytes = abstractions.MaxOwnerBytes
	// MaxMetadataBytes bounds the keys and values of a lease's metadata, added up: 4096.
	MaxMetadataBytes = abstractions.MaxMetadataBytes
)

// MaxToken bounds fencing tokens: below 2^53, so that they survive formats that count
// in floating point.
const MaxToken = abstractions.MaxToken

// ValidateName reports whether a lease may be called name: UTF-8, 1 to
// MaxNameBytes bytes, no control characters.
func ValidateName(name string) error { return abstractions.ValidateName(name) }
