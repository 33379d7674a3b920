package suite

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Claim is a claim of the suite to a name.
type Claim struct {
	E     *Env
	P     abstractions.Provider
	Req   abstractions.AcquireRequest
	Grant abstractions.Grant
	// Sent and Returned enclose the latest successful acquire or renewal.
	Sent, Returned time.Time
	Ttl            time.Duration // the TTL of that request
}

// Request returns a new claim's request for a long lease.
func (e *Env) Request(name string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: e.Id(), Owner: "providertest", TTL: e.Long}
}

func (e *Env) ShortRequest(name string) abstractions.AcquireRequest {
	req := e.Request(name)
	req.TTL = e.Short
	return req
}

// Try makes one attempt. The claim has the times of the attempt, even after a refusal.
func (e *Env) Try(p abstractions.Provider, req abstractions.AcquireRequest) (*Claim, error) {
	c := &Claim{E: e, P: p, Req: req, Ttl: req.TTL, Sent: e.Now()}
	var err error
	c.Grant, err = Send(e, p.Acquire, req)
	c.Returned = e.Now()
	return c, err
}

// Acquire makes one attempt, which must grant the request.
func (e *Env) Acquire(p abstractions.Provider, req abstractions.AcquireRequest) *Claim {
	c, err := e.Try(p, req)
	e.NoError(err, "acquire %q", req.Name)
	c.IsGranted(c.Grant)
	return c
}

// Take acquires a long lease of the name for a new claim.
func (e *Env) Take(name string) *Claim {
	return e.Acquire(e.P, e.Request(name))
}

// TakeWithRetry is Take, but retries while the backend is busy.
func (e *Env) TakeWithRetry(p abstractions.Provider, name string) (c *Claim) {
	req := e.Request(name)
	e.NoError(e.Retry(func(context.Context) (err error) {
		c, err = e.Try(p, req)
		return err
	}), "acquire %q", name)
	return c
}

// IsGranted requires that a grant is for the claim, with its TTL and a valid token.
func (c *Claim) IsGranted(grant abstractions.Grant) {
	c.E.Equal(c.Req.Name, grant.Name, "Grant.Name")
	c.E.Equal(c.Req.ID, grant.ID, "Grant.ID")
	c.E.Equal(c.Ttl, grant.TTL, "Grant.TTL is the TTL that was asked for")
	c.E.Positive(grant.Token, "Grant.Token")
	c.E.LessOrEqual(grant.Token, int64(abstractions.MaxToken), "Grant.Token")
}

func (c *Claim) Token() int64 { return c.Grant.Token }

func (c *Claim) RenewRequest(ttl time.Duration) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: c.Req.Name, ID: c.Req.ID, Token: c.Grant.Token, TTL: ttl, State: c.Grant.State}
}

// TryRenew makes one attempt to renew, and records a success.
func (c *Claim) TryRenew(ttl time.Duration) error {
	sent := c.E.Now()
	grant, err := Send(c.E, c.P.Renew, c.RenewRequest(ttl))
	if err == nil {
		c.Sent, c.Returned, c.Ttl = sent, c.E.Now(), ttl
		c.IsGranted(grant)
		c.E.Equal(c.Grant.Token, grant.Token, "a renewal keeps the token")
		c.Grant = grant
	}
	return err
}

// RenewWithRetry renews, and retries while the backend is busy.
func (c *Claim) RenewWithRetry() error {
	return c.E.Retry(func(context.Context) error { return c.TryRenew(c.E.Long) })
}

// Renew renews the claim. The call must succeed.
func (c *Claim) Renew(ttl time.Duration) {
	c.E.NoError(c.TryRenew(ttl), "renew %q", c.Req.Name)
}

// IsLost requires that a renewal is refused as lost for one of the reasons.
func (c *Claim) IsLost(reasons ...abstractions.LostReason) {
	c.E.Lost(c.TryRenew(c.Req.TTL), reasons...)
}

func (c *Claim) ReleaseRequest() abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: c.Req.Name, ID: c.Req.ID, Token: c.Grant.Token, State: c.Grant.State}
}

// Release releases the claim. The call must succeed, whatever has become of the claim.
func (c *Claim) Release() {
	c.E.Release(c.P, c.ReleaseRequest())
}

func (e *Env) Release(p abstractions.Provider, req abstractions.ReleaseRequest) {
	e.NoError(Second(Send(e, Releasing(p), req)), "release %q", req.Name)
}

// CleanUp releases the claim of an attempt whose outcome is unknown.
func (e *Env) CleanUp(p abstractions.Provider, req abstractions.AcquireRequest) {
	e.Release(p, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID})
}

func (e *Env) Inspect(name string) abstractions.Record {
	record, err := Send(e, e.Peer.Inspect, abstractions.InspectRequest{Name: name})
	e.NoError(err, "inspect %q", name)
	e.Equal(name, record.Name, "Record.Name")
	return record
}

func (e *Env) TryBreak(req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return Send(e, e.Peer.Break, req)
}

// Break makes the other client break a lease, and must succeed.
func (e *Env) Break(req abstractions.BreakRequest) abstractions.BreakResult {
	result, err := e.TryBreak(req)
	e.NoError(err, "break %q", req.Name)
	return result
}

// IsHeld requires that the backend still shows the claim as the holder of its name.
func (c *Claim) IsHeld() {
	record := c.E.Inspect(c.Req.Name)
	c.E.True(record.Held, "%q is still held", c.Req.Name)
	c.E.Equal(abstractions.FingerprintOf(c.Req.ID), record.Fingerprint, "by the same claim")
	c.E.Equal(c.Grant.Token, record.Token, "with the same token")
	c.E.IsRefused(c.Req.Name)
}

// IsFree requires that the name can be acquired at once, and then releases the
// name.
func (e *Env) IsFree(name string) {
	e.False(e.Inspect(name).Held, "%q is free", name)
	e.Acquire(e.Peer, e.Request(name)).Release()
}

// IsRefused requires that a new claim for the name is refused, from either client.
func (e *Env) IsRefused(name string) *abstractions.HeldError {
	var held *abstractions.HeldError
	for client, p := range e.Clients() {
		_, err := e.Try(p, e.Request(name))
		held = e.Held(err, "%q for the %s", name, client)
	}
	return held
}
