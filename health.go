package leasing

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// pingName is what Health inspects at a provider that is no Pinger.
const pingName = "leasing/health"

func (m *manager) Health(ctx context.Context) Health {
	h := Health{
		Status: Healthy, Provider: m.caps.Provider, Owner: m.options.Owner, Closed: m.isClosing(),
		Failing: int(m.failing.Load()), Waiting: int(m.queues.waiting.Load()), OldestWaiter: m.queues.oldest(), Lost: m.lost.Load(),
		ObserverPanics: m.observers.panics.Load(), StuckObservers: m.observers.stuck(),
	}
	m.mu.Lock()
	h.Held = len(m.leases)
	m.mu.Unlock()
	m.outage.fill(&h, m.clock)
	if h.Failing > 0 || h.StuckObservers > 0 || !h.FailingSince.IsZero() {
		h.Status = Degraded
	}
	ctx, cancel := context.WithTimeout(orBackground(ctx), m.options.HealthTimeout)
	defer cancel()
	began := time.Now()
	_, err := call(ctx, m, "ping", "", nil, m.ping)
	h.Ping = time.Since(began)
	if err != nil {
		h.Status, h.Error = Unhealthy, err.Error()
	}
	return h
}

func (m *manager) ping(ctx context.Context) (Record, error) {
	if pinger, ok := abstractions.As[abstractions.Pinger](m.provider); ok {
		return Record{}, pinger.Ping(ctx)
	}
	return m.provider.Inspect(ctx, abstractions.InspectRequest{Name: pingName})
}

// HealthHandler serves a manager's Health as JSON: with status 200 while it is
// Healthy or Degraded, with 503 otherwise. It answers GET and HEAD, within
// Options.HealthTimeout.
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
