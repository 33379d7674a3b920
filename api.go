package leasing

import "github.com/distributedleasing/leasing/abstractions"

// Package abstractions defines the names below, for applications and providers.
// Applications need only this package.

// Provider is a backend, opened by one of the modules under providers. Pass it to
// NewManager, and close it after the manager. Applications do not call its
// methods: each method makes a single attempt, and nothing renews a lease that it grants.
type Provider = abstractions.Provider

// Opener opens a provider by its URL. Each provider package has a function Opener that returns an
// Opener: see package open.
type Opener = abstractions.Opener

// Capabilities are facts about a backend: the bounds of a TTL, which clock decides, and whether a
// lease may be infinite. A bound of 0 means no bound.
type Capabilities = abstractions.Capabilities

// Lateness bounds the delay between the end of a dead holder's TTL and the moment at
// which a working backend grants the name to others: a fixed time plus a share of the
// TTL.
type Lateness = abstractions.Lateness

// The arguments and results of calls. A zero field means the default.
type (
	// AcquireOptions configure the leases of Manager.With: TTL, RenewFraction or RenewCadence,
	// NoAutoRenew, MaxRenewals (0: no limit), WaitLimit (0: until ctx ends), AtLeast
	// (0: until the release), Metadata and an Observer. Zero fields are taken from
	// Options.
	AcquireOptions = abstractions.AcquireOptions
	// AdoptOptions configure a lease that Adopt continues: TTL, RenewFraction or RenewCadence,
	// NoAutoRenew, MaxRenewals, Metadata (nil: unchanged) and an Observer. Zero fields are taken
	// from Options.
	AdoptOptions = abstractions.AdoptOptions
	// BreakOptions say who breaks a lease and why (Actor, Reason), which lease is
	// meant (IfToken; 0: the current one), and whether the name is free at once
	// (Immediate) or when the lease has run out.
	BreakOptions = abstractions.BreakOptions
	// BreakResult says whether the name was held when Break was applied, what its latest token is,
	// and how long the name stays taken (0: it is free now).
	BreakResult = abstractions.BreakResult
	// ListOptions select the names that List returns: by Prefix ("": all), and with HeldOnly only
	// held names.
	ListOptions = abstractions.ListOptions
	// HistoryOptions choose the order of a History: the oldest change first, or the newest.
	HistoryOptions = abstractions.HistoryOptions
	// HistoryEntry is one change to a name, with times by the backend's clock. It marshals to and from JSON.
	HistoryEntry = abstractions.HistoryEntry
	// HistoryKind is the kind of a change: HistoryAcquired, and so on.
	HistoryKind = abstractions.HistoryKind
	// Handover is a lease on its way from one process to another: its name, ID and
	// token. It marshals to and from JSON. Any process that has the Handover can renew and
	// release the lease.
	Handover = abstractions.Handover
	// Record is the state of a name in the backend at one moment. Its times are the backend's:
	// compare them with each other, and not with this process's clock. For a free name only Name,
	// Token and Now are guaranteed.
	Record = abstractions.Record
	// Waiting is a claim that waits for a name: its fingerprint, its owner, when it began to
	// wait, and the backend's clock at the read. Its times are the backend's.
	Waiting = abstractions.Waiting
	// Fingerprint stands for a claim's ID in records, errors, events and history. It marshals to
	// and from JSON.
	Fingerprint = abstractions.Fingerprint
	// Health is a report on a manager and its backend. It marshals to and from JSON.
	Health = abstractions.Health
	// HealthStatus is the summary of a report: Healthy, Degraded or Unhealthy.
	HealthStatus = abstractions.HealthStatus
)

// Healthy: the backend answers, and every renewal is on time. Degraded: renewals or requests fail,
// leases were lost within the last minute, or an observer is stuck. Unhealthy: the backend does not
// answer, or the manager is closed.
const (
	Healthy   = abstractions.Healthy
	Degraded  = abstractions.Degraded
	Unhealthy = abstractions.Unhealthy
)

// The kinds of changes. An expiry is recorded when the name next changes, with the time at which
// the lease ran out.
const (
	HistoryAcquired = abstractions.HistoryAcquired
	HistoryRenewed  = abstractions.HistoryRenewed
	HistoryExpired  = abstractions.HistoryExpired
	HistoryReleased = abstractions.HistoryReleased
	HistoryBroken   = abstractions.HistoryBroken
	// HistoryLost: the holder reported that it no longer trusts its lease. Package history writes
	// this kind; providers don't.
	HistoryLost = abstractions.HistoryLost
)

// The types of observers and their events.
type (
	// Observer is called with events, in order for each lease, on a goroutine of its
	// own. It may block without delaying any lease.
	Observer = abstractions.Observer
	// Event is one thing that happened to a lease. Fields that don't concern its Kind
	// are zero. Times and durations are by this process's clock.
	Event = abstractions.Event
	// EventKind is the kind of an event: EventAcquired, and so on.
	EventKind = abstractions.EventKind
)

// The kinds of events.
const (
	// EventAcquired: this manager has acquired or adopted the lease.
	EventAcquired = abstractions.EventAcquired
	// EventRenewed: a renewal succeeded.
	EventRenewed = abstractions.EventRenewed
	// EventRenewalFailed: a renewal failed; the lease is still held.
	EventRenewalFailed = abstractions.EventRenewalFailed
	// EventAcquireFailed: the backend did not answer an Acquire, which retries.
	EventAcquireFailed = abstractions.EventAcquireFailed
	// EventLost: the lease ended without a release.
	EventLost = abstractions.EventLost
	// EventReleased: the lease was released; Err is set if the backend did not confirm
	// the release.
	EventReleased = abstractions.EventReleased
	// EventHandedOver: HandOver ended the lease in this process; others still find
	// the name taken.
	EventHandedOver = abstractions.EventHandedOver
	// EventBroken: this manager's Break ended a lease.
	EventBroken = abstractions.EventBroken
	// EventDropped: the observer hung, and missed events.
	EventDropped = abstractions.EventDropped
)

// The sentinel errors: errors.Is matches an error of this package, or of any provider,
// with its sentinels. ErrHeld and ErrLost differ: ErrHeld means that another holder has
// the name that you asked for, ErrLost that your own lease has ended.
var (
	// ErrHeld: another holder has the name at present. Carried by *HeldError.
	ErrHeld = abstractions.ErrHeld
	// ErrLost: the lease has ended without being released. Carried by *LostError.
	ErrLost = abstractions.ErrLost
	// ErrReleased: the lease was released.
	ErrReleased = abstractions.ErrReleased
	// ErrHandedOver: HandOver ended the lease in this process.
	ErrHandedOver = abstractions.ErrHandedOver
	// ErrClosed: the manager or provider was closed.
	ErrClosed = abstractions.ErrClosed
	// ErrUnavailable: the backend did not answer, or could not serve the request.
	// Unless it is also ErrThrottled, the request may have been applied.
	ErrUnavailable = abstractions.ErrUnavailable
	// ErrThrottled: the backend refused for now and did nothing. It is also
	// ErrUnavailable.
	ErrThrottled = abstractions.ErrThrottled
	// ErrInvalid: the request can't work as it is; nothing was sent. Carried by
	// *InvalidError.
	ErrInvalid = abstractions.ErrInvalid
	// ErrDenied: the backend refused the credentials, or they lack a permission.
	ErrDenied = abstractions.ErrDenied
	// ErrNotSetUp: the backend lacks something that must be created first (a table, a
	// container), or has it in a version this code doesn't know.
	ErrNotSetUp = abstractions.ErrNotSetUp
	// ErrStale: a fencing token is not, or no longer, the name's latest.
	ErrStale = abstractions.ErrStale
	// ErrUnsupported: the provider lacks an optional ability.
	ErrUnsupported = abstractions.ErrUnsupported
)

// The types of those errors, for errors.As.
type (
	// Error says which operation failed, at which provider, for which name, and why.
	Error = abstractions.Error
	// HeldError matches ErrHeld. Holder describes the holder, ByThisManager is set if the holder is a lease of the same
	// manager, and RetryAfter is the backend's advice, or 0.
	HeldError = abstractions.HeldError
	// LostError matches ErrLost, and is the cause of a lost lease's context. Reason is one of the reasons below. Err
	// is the underlying error, such as that of the last renewal, or nil. BrokenBy and BreakReason are the actor and the
	// reason of the Break, if the backend reports an actor and a reason.
	LostError = abstractions.LostError
	// LostReason says how a lease ended without a release.
	LostReason = abstractions.LostReason
	// ThrottledError matches ErrThrottled and ErrUnavailable. RetryAfter is 0 if the
	// backend did not say when to retry.
	ThrottledError = abstractions.ThrottledError
	// InvalidError matches ErrInvalid and names the field, its value and the valid values.
	InvalidError = abstractions.InvalidError
	// CloseError reports the leases and releases that Manager.Close left unfinished: InUse names the leases that their
	// holders have not released, Unreleased counts the claims whose release the backend has not confirmed, and Err says
	// why Close stopped waiting.
	CloseError = abstractions.CloseError
)

// The reasons of a LostError.
const (
	// LostExpired: trust ended before a renewal succeeded.
	LostExpired = abstractions.LostExpired
	// LostTaken: the backend reports another holder.
	LostTaken = abstractions.LostTaken
	// LostBroken: a Break ended the lease.
	LostBroken = abstractions.LostBroken
	// LostGone: the backend no longer has the claim.
	LostGone = abstractions.LostGone
	// LostRenewalLimit: the lease ran out after AcquireOptions.MaxRenewals renewals.
	LostRenewalLimit = abstractions.LostRenewalLimit
	// LostClosed: the manager was closed while the lease was in use, and the lease ran
	// out.
	LostClosed = abstractions.LostClosed
)

// Infinite is the TTL of a lease that never expires by itself. Only Release or Break ends it, so a
// holder that crashes blocks the name until a Break.
const Infinite = abstractions.Infinite

// Bounds that hold on every backend, in bytes of UTF-8.
const (
	// MaxNameBytes is the maximum length of a lease's name: 512.
	MaxNameBytes = abstractions.MaxNameBytes
	// MaxOwnerBytes is the maximum length of an owner, and of the Actor of a break: 256.
	MaxOwnerBytes = abstractions.MaxOwnerBytes
	// MaxMetadataBytes bounds the total size of a lease's metadata, keys and values:
	// 4096.
	MaxMetadataBytes = abstractions.MaxMetadataBytes
)

// MaxToken is the largest fencing token, 2^53-1: formats that store numbers as floating point
// represent every token exactly.
const MaxToken = abstractions.MaxToken

// FingerprintOf returns the fingerprint of a claim's ID. Records and events about a lease
// carry FingerprintOf(lease.ID()).
func FingerprintOf(id string) Fingerprint { return abstractions.FingerprintOf(id) }

// ValidateName returns nil if name is a valid lease name: UTF-8, 1 to
// MaxNameBytes bytes, no control characters. Otherwise the error matches
// ErrInvalid.
func ValidateName(name string) error { return abstractions.ValidateName(name) }
