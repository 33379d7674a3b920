package redistest

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// Claimant acquires names from a provider. An unexpected error ends the test.
type Claimant struct {
	T    testing.TB
	From abstractions.Provider
}

// AcquireRequest returns the request of a claim.
func AcquireRequest(name, id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: id, Owner: "owner of " + id, TTL: ttl}
}

// Try sends one acquire.
func (c *Claimant) Try(name, id string, ttl time.Duration) (abstractions.Grant, error) {
	return c.From.Acquire(c.T.Context(), AcquireRequest(name, id, ttl))
}

// Take sends one acquire, which must succeed.
func (c *Claimant) Take(name, id string, ttl time.Duration) abstractions.Grant {
	c.T.Helper()
	g, err := c.Try(name, id, ttl)
	if err != nil {
		c.T.Fatal(err)
	}
	if g.Name != name || g.ID != id || g.TTL != ttl || g.Token <= 0 {
		c.T.Fatalf("granted: %+v", g)
	}
	return g
}

// Obtain repeats the acquire until the name is free.
func (c *Claimant) Obtain(name, id string, ttl time.Duration) abstractions.Grant {
	c.T.Helper()
	for end := time.Now().Add(servertest.Timeout); ; <-time.After(10 * time.Millisecond) {
		g, err := c.Try(name, id, ttl)
		if err == nil {
			return g
		}
		if time.Now().After(end) {
			c.T.Fatal(err)
		}
	}
}

// RenewGrant renews a lease.
func (c *Claimant) RenewGrant(g abstractions.Grant, ttl time.Duration) (abstractions.Grant, error) {
	return c.From.Renew(c.T.Context(), abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: ttl, State: g.State})
}

// ReleaseGrant releases a lease.
func (c *Claimant) ReleaseGrant(g abstractions.Grant) error {
	return c.From.Release(c.T.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State})
}

// RecordOf returns the record of a name.
func (c *Claimant) RecordOf(name string) abstractions.Record {
	c.T.Helper()
	record, err := c.From.Inspect(c.T.Context(), abstractions.InspectRequest{Name: name})
	if err != nil {
		c.T.Fatal(err)
	}
	return record
}
