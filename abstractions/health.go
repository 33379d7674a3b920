package abstractions

import "time"

// HealthStatus sums a report up.
type HealthStatus string

// Healthy: the backend answers and every renewal is on time. Degraded: some
// leases have failed their last renewal but are still trusted, or an observer
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
	// Held counts leases; Failing those whose last renewal failed.
	Held    int `json:"held"`
	Failing int `json:"failing"`
	Waiting int `json:"waiting"`
	// Lost counts the leases lost since the manager was made.
	Lost int64 `json:"lost"`
	// ObserverPanics counts the panics of observers; StuckObservers those
	// that have been busy with one event for over 10 s.
	ObserverPanics int64 `json:"observer_panics"`
	StuckObservers int   `json:"stuck_observers"`
}
