package providertest

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// claim is a name held by the suite.
type claim struct {
	e     *env
	p     abstractions.Provider
	req   abstractions.AcquireRequest
	grant abstractions.Grant
	// sent and returned enclose the latest successful acquire or renewal.
	sent, returned time.Time
	ttl            time.Duration // of that
}

// request returns a new claim's request for a long lease.
func (e *env) request(name string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: e.id(), Owner: "providertest", TTL: e.long}
}

func (e *env) shortRequest(name string) abstractions.AcquireRequest {
	req := e.request(name)
	req.TTL = e.short
	return req
}

// try makes one attempt. The claim says when it was made, also after a refusal.
func (e *env) try(p abstractions.Provider, req abstractions.AcquireRequest) (*claim, error) {
	c := &claim{e: e, p: p, req: req, ttl: req.TTL, sent: e.now()}
	var err error
	c.grant, err = send(e, p.Acquire, req)
	c.returned = e.now()
	return c, err
}

// acquire must succeed, and grant the request.
func (e *env) acquire(p abstractions.Provider, req abstractions.AcquireRequest) *claim {
	c, err := e.try(p, req)
	e.NoError(err, "acquire %q", req.Name)
	c.isGranted(c.grant)
	return c
}

// take acquires a long lease of the name for a new claim.
func (e *env) take(name string) *claim {
	return e.acquire(e.p, e.request(name))
}

// settledTake is take, but retries while the backend is busy.
func (e *env) settledTake(p abstractions.Provider, name string) (c *claim) {
	req := e.request(name)
	e.NoError(e.settled(func(context.Context) (err error) {
		c, err = e.try(p, req)
		return err
	}), "acquire %q", name)
	return c
}

// isGranted requires that a grant is for the claim, with its TTL and a valid token.
func (c *claim) isGranted(grant abstractions.Grant) {
	c.e.Equal(c.req.Name, grant.Name, "Grant.Name")
	c.e.Equal(c.req.ID, grant.ID, "Grant.ID")
	c.e.Equal(c.ttl, grant.TTL, "Grant.TTL is the TTL that was asked for")
	c.e.Positive(grant.Token, "Grant.Token")
	c.e.LessOrEqual(grant.Token, int64(abstractions.MaxToken), "Grant.Token")
}

func (c *claim) token() int64 { return c.grant.Token }

func (c *claim) renewRequest(ttl time.Duration) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: c.req.Name, ID: c.req.ID, Token: c.grant.Token, TTL: ttl, State: c.grant.State}
}

// tryRenew makes one attempt, and takes note of a success.
func (c *claim) tryRenew(ttl time.Duration) error {
	sent := c.e.now()
	grant, err := send(c.e, c.p.Renew, c.renewRequest(ttl))
	if err == nil {
		c.sent, c.returned, c.ttl = sent, c.e.now(), ttl
		c.isGranted(grant)
		c.e.Equal(c.grant.Token, grant.Token, "a renewal keeps the token")
		c.grant = grant
	}
	return err
}

// settledRenew renews, and retries while the backend is busy.
func (c *claim) settledRenew() error {
	return c.e.settled(func(context.Context) error { return c.tryRenew(c.e.long) })
}

// renew must succeed.
func (c *claim) renew(ttl time.Duration) {
	c.e.NoError(c.tryRenew(ttl), "renew %q", c.req.Name)
}

// isLost says that a renewal is refused as lost for one of the reasons.
func (c *claim) isLost(reasons ...abstractions.LostReason) {
	c.e.lost(c.tryRenew(c.req.TTL), reasons...)
}

func (c *claim) releaseRequest() abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: c.req.Name, ID: c.req.ID, Token: c.grant.Token, State: c.grant.State}
}

// release must succeed, whatever has become of the claim.
func (c *claim) release() {
	c.e.release(c.p, c.releaseRequest())
}

func (e *env) release(p abstractions.Provider, req abstractions.ReleaseRequest) {
	e.NoError(second(send(e, releasing(p), req)), "release %q", req.Name)
}

// cleanUp releases an attempt of which only the request is known.
func (e *env) cleanUp(p abstractions.Provider, req abstractions.AcquireRequest) {
	e.release(p, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID})
}

func (e *env) inspect(name string) abstractions.Record {
	record, err := send(e, e.peer.Inspect, abstractions.InspectRequest{Name: name})
	e.NoError(err, "inspect %q", name)
	e.Equal(name, record.Name, "Record.Name")
	return record
}

func (e *env) tryBreak(req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return send(e, e.peer.Break, req)
}

// breaks must succeed; it is another client that breaks.
func (e *env) breaks(req abstractions.BreakRequest) abstractions.BreakResult {
	result, err := e.tryBreak(req)
	e.NoError(err, "break %q", req.Name)
	return result
}

// isHeld requires that the backend still shows the claim as the holder of its name.
func (c *claim) isHeld() {
	record := c.e.inspect(c.req.Name)
	c.e.True(record.Held, "%q is still held", c.req.Name)
	c.e.Equal(abstractions.FingerprintOf(c.req.ID), record.Fingerprint, "by the same claim")
	c.e.Equal(c.grant.Token, record.Token, "with the same token")
	c.e.refused(c.req.Name)
}

// isFree says that the name can be had at once; it gives it back.
func (e *env) isFree(name string) {
	e.False(e.inspect(name).Held, "%q is free", name)
	e.acquire(e.peer, e.request(name)).release()
}

// refused says that a new claim for the name is refused, from either client.
func (e *env) refused(name string) *abstractions.HeldError {
	var held *abstractions.HeldError
	for client, p := range e.clients() {
		_, err := e.try(p, e.request(name))
		held = e.held(err, "%q for the %s", name, client)
	}
	return held
}
