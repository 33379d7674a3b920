package abstractions

import "time"

// Observer is called with events, off the renewal path: in order for each
// lease, one at a time for each subscription. Acquired, Lost, Released, HandedOver
// and Broken events are never dropped. While an observer is slow, consecutive
// Renewed events of a lease become one, and so do RenewalFailed and AcquireFailed
// events: the latest, with Coalesced telling how many it stands for. An observer that
// panics or hangs is counted in Health and harms no lease. Only while one hangs
// in an event for more than ten seconds, with ten thousand others waiting, does it miss
// any; a Dropped event in their place then says how many.
type Observer func(Event)

// EventKind says what happened to a lease.
type EventKind string

// The kinds of events.
const (
	EventAcquired      EventKind = "acquired"
	EventRenewed       EventKind = "renewed"
	EventRenewalFailed EventKind = "renewal_failed"
	// EventAcquireFailed: the backend did not answer an Acquire, which asks again.
	// That somebody else holds the name is no failure.
	EventAcquireFailed EventKind = "acquire_failed"
	EventLost          EventKind = "lost"
	EventReleased      EventKind = "released"
	// EventHandedOver: HandOver ended the lease in this process; others still find
	// the name taken.
	EventHandedOver EventKind = "handed_over"
	// EventBroken: this manager's Break ended somebody's lease.
	EventBroken EventKind = "broken"
	// EventDropped: the observer has hung, and missed as many events as Coalesced
	// says. It concerns no single lease.
	EventDropped EventKind = "dropped"
)

// Event is one thing that happened. Fields that don't concern its kind are zero.
type Event struct {
	Kind  EventKind
	Time  time.Time // by this process's clock
	Name  string
	ID    string
	Owner string
	Token int64
	TTL   time.Duration

	// Remaining is the trust left (Acquired, Renewed, RenewalFailed).
	Remaining time.Duration
	// Attempt counts failures since the last success, from 1; WillRetry says
	// whether another attempt follows (RenewalFailed, AcquireFailed).
	Attempt   int
	WillRetry bool
	// Err is the failure (RenewalFailed, AcquireFailed), the *LostError (Lost), or why the
	// backend could not be told (Released; nil if it was).
	Err error
	// Reason is why the lease was lost (Lost).
	Reason LostReason
	// BrokenBy and BreakReason are those of the break (Broken; Lost, if the backend
	// tells): see BreakOptions.
	BrokenBy, BreakReason string
	// LastRenewal is when the last successful acquire or renewal was sent (Lost).
	LastRenewal time.Time
	// Renewals counts the successful ones so far.
	Renewals int
	// Coalesced is how many events this one stands for, itself included.
	Coalesced int
}
