package abstractions

import "time"

// HealthStatus is the summary of a report.
type HealthStatus string

// Healthy: the backend answers and renewals succeed. Degraded: some leases are
// still trusted although their last renewal failed, requests fail although the
// backend answers a ping, leases were lost within the last minute, or an observer
// is stuck. Unhealthy: the backend does not answer, or the manager is closed.
const (
	Healthy   HealthStatus = "healthy"
	Degraded  HealthStatus = "degraded"
	Unhealthy HealthStatus = "unhealthy"
)

// Health is a report on a manager and its backend.
type Health struct {
	Status   HealthStatus  `json:"status"`
	Provider string        `json:"provider"`
	Owner    string        `json:"owner"`
	Ping     time.Duration `json:"ping_ns"`
	Error    string        `json:"error,omitempty"` // why the ping failed
	Closed   bool          `json:"closed"`
	// Held counts the held leases, Failing the held leases whose last renewal failed,
	// and Waiting the Acquire calls that wait.
	Held    int `json:"held"`
	Failing int `json:"failing"`
	Waiting int `json:"waiting"`
	// OldestWaiter is the time for which the oldest Acquire has waited.
	OldestWaiter time.Duration `json:"oldest_waiter_ns"`
	// FailingSince is the time of the first failed request for a lease, if no request has been
	// answered since and one has failed within the last minute. Otherwise it is zero.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// Lost counts the leases lost since the manager was made; LastLost is the time of the
	// last loss, not counting leases whose MaxRenewals were used up.
	Lost     int64     `json:"lost"`
	LastLost time.Time `json:"last_lost,omitzero"`
	// ObserverPanics counts the panics of observers; StuckObservers counts the
	// observers that have been busy with one event for over 10 s.
	ObserverPanics int64 `json:"observer_panics"`
	StuckObservers int   `json:"stuck_observers"`
}
