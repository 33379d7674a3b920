package console

import (
	"context"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing"
)

// healthPage is the template data of the backend, of this process's own leases and of the console.
type healthPage struct {
	page
	Health     leasing.Health
	Backend    leasing.Capabilities
	Options    Options
	HasHistory bool
}

// health pings the backend.
func (c *Console) health(ctx context.Context, user string) *healthPage {
	p := &healthPage{page: c.page(user, "Health"), Backend: c.manager.Capabilities(), Options: c.options, HasHistory: c.history != nil}
	p.Live, p.AsOf = true, time.Now()
	p.Health = c.manager.Health(ctx)
	return p
}

// Late returns how long after the end of a one-minute lease the backend may still refuse the name to others.
func (p *healthPage) Late() time.Duration { return p.Backend.Lateness.After(time.Minute) }

// Longest returns the longest TTL, or "" if it is a year or more.
func (p *healthPage) Longest() string {
	if longest := p.Backend.MaxTTL; longest > 0 && longest < 365*24*time.Hour {
		return formatDuration(longest)
	}
	return ""
}

func (c *Console) serveHealth(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "health.html", c.health(r.Context(), userOf(r)))
}

func (c *Console) streamHealth(w http.ResponseWriter, r *http.Request) {
	c.streamShared(w, r, partKey{template: "health-live"}, func(ctx context.Context, _ any) any { return c.health(ctx, "") })
}
