package console

import (
	"context"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing"
)

// healthPage is what the templates show of the backend, of this process's own leases and
// of the console.
type healthPage struct {
	page
	Health     leasing.Health
	Backend    leasing.Capabilities
	Options    Options
	HasHistory bool
}

// health pings the backend.
func (c *Console) health(r *http.Request) *healthPage {
	p := &healthPage{page: c.page(r, "Health"), Backend: c.manager.Capabilities(), Options: c.options, HasHistory: c.history != nil}
	p.Live, p.AsOf = true, time.Now()
	p.Health = c.manager.Health(r.Context())
	return p
}

// Late is how long after its end a lease of a minute may still be refused to others.
func (p *healthPage) Late() time.Duration { return p.Backend.Lateness.After(time.Minute) }

// Longest is the longest TTL; "" if that is no bound to speak of.
func (p *healthPage) Longest() string {
	if longest := p.Backend.MaxTTL; longest > 0 && longest < 365*24*time.Hour {
		return duration(longest)
	}
	return ""
}

func (c *Console) serveHealth(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "health.html", c.health(r))
}

func (c *Console) streamHealth(w http.ResponseWriter, r *http.Request) {
	c.stream(w, r, "health-live", func(context.Context) (any, time.Time) {
		return c.health(r), time.Now().Add(c.options.Refresh)
	})
}
