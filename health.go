package leasing

import (
	"net/http"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// HealthHandler serves a manager's Health as JSON: with status 200 while it is
// Healthy or Degraded, with 503 otherwise. It answers GET and HEAD, within
// Tuning.HealthTimeout. Mount it on a readiness path: restarting the process
// would not end an outage of the backend.
func HealthHandler(m *Manager) http.Handler {
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
		_ = providerkit.WriteJSON(w, health) // the client may have gone
	})
}
