package abstractions

import "time"

// Observer is called with events, off the renewal path: in order for each
// lease, one at a time for each subscription. While an observer is slow, consecutive
// Renewed events of a lease are merged into the latest, and so are RenewalFailed and
// AcquireFailed events; Coalesced has their number. Events of other kinds are not merged. An
// observer misses events only if it spends more than ten seconds on one event while ten
// thousand others wait; a Dropped event with their number then takes their place. An
// observer that panics or hangs is counted in Health and does not affect leases.
type Observer func(Event)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventAcquired      EventKind = "acquired"
	EventRenewed       EventKind = "renewed"
	EventRenewalFailed EventKind = "renewal_failed"
	// EventAcquireFailed: the backend did not answer a request from an Acquire, which retries the request. A name that someone
	// else holds is not a failure.
	EventAcquireFailed EventKind = "acquire_failed"
	EventLost          EventKind = "lost"
	EventReleased      EventKind = "released"
	// EventHandedOver: HandOver ended the lease in this process; to all other processes the name stays taken.
	EventHandedOver EventKind = "handed_over"
	// EventBroken: this manager's Break ended a lease.
	EventBroken EventKind = "broken"
	// EventDropped: the observer hung and missed as many events as Coalesced
	// says. The event does not belong to a single lease.
	EventDropped EventKind = "dropped"
)

// Event is one event of a manager. Fields that don't concern its kind are zero.
type Event struct {
	Kind        EventKind
	Time        time.Time // by this process's clock
	Name        string
	Fingerprint Fingerprint // of the claim's ID
	Owner       string
	Token       int64
	TTL         time.Duration

	// Remaining is the time for which the lease can still be trusted (Acquired, Renewed,
	// RenewalFailed).
	Remaining time.Duration
	// Attempt counts failures since the last success, from 1; WillRetry says
	// whether another attempt follows (RenewalFailed, AcquireFailed).
	Attempt   int
	WillRetry bool
	// Err is the failure (RenewalFailed, AcquireFailed), the *LostError (Lost), or why the
	// backend did not confirm the release (Released; nil if it did).
	Err error
	// Reason is why the lease was lost (Lost).
	Reason LostReason
	// BrokenBy and BreakReason are the Actor and Reason of the break (Broken; Lost,
	// if the backend reports them): see BreakOptions.
	BrokenBy, BreakReason string
	// LastRenewal is the time at which the last successful acquire or renewal was sent (Lost).
	LastRenewal time.Time
	// Renewals counts the lease's successful renewals so far.
	Renewals int
	// Coalesced is the number of events that this event stands for, itself included.
	Coalesced int
}
