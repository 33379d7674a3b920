package leasing

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

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

// pingName is what Health inspects at a provider that is no Pinger.
const pingName = "leasing/health"

func (m *manager) Health(ctx context.Context) Health {
	h := Health{
		Status: Healthy, Provider: m.caps.Provider, Owner: m.options.Owner, Closed: m.isClosing(),
		Failing: int(m.failing.Load()), Waiting: int(m.queues.waiting.Load()), Lost: m.lost.Load(),
		ObserverPanics: m.observers.panics.Load(), StuckObservers: m.observers.stuck(),
	}
	m.mu.Lock()
	h.Held = len(m.leases)
	m.mu.Unlock()
	began := time.Now()
	err := m.call(ctx, "ping", "", nil, m.ping)
	h.Ping = time.Since(began)
	switch {
	case err != nil:
		h.Status, h.Error = Unhealthy, err.Error()
	case h.Failing > 0 || h.StuckObservers > 0:
		h.Status = Degraded
	}
	return h
}

func (m *manager) ping(ctx context.Context) error {
	if pinger, ok := As[Pinger](m.provider); ok {
		return pinger.Ping(ctx)
	}
	_, err := m.provider.Inspect(ctx, InspectRequest{Name: pingName})
	return err
}

// HealthHandler serves a manager's Health as JSON: with status 200 while it is
// Healthy or Degraded, with 503 otherwise. It answers GET and HEAD.
func HealthHandler(m Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		health := m.Health(r.Context())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if health.Status == Unhealthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(health) // the client has gone: nobody to tell
	})
}
