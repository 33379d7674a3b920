package providertest

import (
	"context"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/proxy"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// A proxy, an ingress or a gateway in front of the server may answer in its place: with a
// redirect to its own page, with a page, with a refusal, with half of an answer, or not at
// all. The server may have applied the request. Such an answer says nothing about a lease.
var httpChecks = []suite.Check{
	{Name: "HTTP_Trap_T109_ARedirectIsNoAnswer", Needs: "HTTP", Run: func(e *suite.Env) { behindProxies(e, proxy.Redirects()) }},
	{Name: "HTTP_Trap_T110_ASuccessIsTheServers", Needs: "HTTP", Run: func(e *suite.Env) { behindProxies(e, proxy.Successes()) }},
	{Name: "HTTP_Trap_T111_ARefusalIsTheServers", Needs: "HTTP", Run: func(e *suite.Env) { behindProxies(e, proxy.Refusals()) }},
	{Name: "HTTP_Trap_T112_AnAnswerIsWhole", Needs: "HTTP", Run: func(e *suite.Env) { behindProxies(e, proxy.Interruptions()) }},
}

// proxiedClient is a client behind a proxy whose answers are checked.
type proxiedClient struct {
	*suite.ProxiedClient
	e *suite.Env
}

// behindProxies checks each fault as the answer to all requests, then to writes that reach the server, and
// then, unless the fault cuts the server's answer, to writes that do not reach the server.
func behindProxies(e *suite.Env, faults []*proxy.Fault) {
	var all []*proxy.Fault
	for _, f := range faults {
		if all = append(all, f.Like(false, f.Cut), f.Like(true, true)); !f.Cut {
			all = append(all, f.Like(true, false))
		}
	}
	next := make(chan *proxy.Fault, len(all))
	for _, f := range all {
		next <- f
	}
	close(next)
	suite.SideBySide(4, func(int) {
		p := &proxiedClient{e.OpenProxied(), e}
		for f := range next {
			p.checkFault(f)
		}
		e.Zero(p.Followed.Load(), "requests to the page of a redirect")
	})
}

// silentCallTimeout is the bound of a call that the proxy leaves without an answer.
const silentCallTimeout = 300 * time.Millisecond

// callUnderFault makes a call while the fault answers, and reports whether the call has succeeded. The call
// may succeed only if the server has applied the request and a read has shown the result. Otherwise
// its outcome is unknown.
func (p *proxiedClient) callUnderFault(f *proxy.Fault, what string, call func(ctx context.Context) error) (done bool) {
	what += " under " + f.String()
	ctx, cancel := context.WithTimeout(p.e.T.Context(), suite.CallTimeout)
	if f.Silent() {
		cancel()
		ctx, cancel = context.WithTimeout(p.e.T.Context(), silentCallTimeout)
	}
	defer cancel()
	p.Fault.Store(f)
	err := call(ctx)
	p.Fault.Store(nil)
	if err == nil {
		p.e.True(f.Applied && f.Writes, "%s: success, although the server has not answered", what)
		return true
	}
	p.e.Is(err, abstractions.ErrUnavailable, what)
	p.e.False(abstractions.NotApplied(err), "%s: it may have been applied: %v", what, err)
	text := err.Error()
	p.e.NotContains(text, "\n", what)
	p.e.Less(len(text), 1000, what)
	if ctx.Err() == nil {
		p.e.True(strings.Contains(text, "proxy") || strings.Contains(text, "gateway") || strings.Contains(text, "cut off"),
			"%s: the error does not name the side that has failed: %v", what, err)
	}
	return false
}

// checkFault makes each kind of call while the fault answers.
func (p *proxiedClient) checkFault(f *proxy.Fault) {
	e, req := p.e, p.e.Request(p.e.Name())
	what := f.String()
	acquire := func(p abstractions.Provider, req abstractions.AcquireRequest) abstractions.Grant {
		grant, err := suite.Send(e, p.Acquire, req)
		e.NoError(err, what)
		return grant
	}
	taken := func(by abstractions.Grant) {
		_, err := suite.Send(e, e.P.Acquire, e.Request(req.Name))
		e.Equal(by.Token, e.Held(err, what).Holder.Token, what)
	}
	isHeld := func() bool {
		record, err := suite.Send(e, e.P.Inspect, abstractions.InspectRequest{Name: req.Name})
		e.NoError(err, what)
		return record.Held
	}

	done := p.callUnderFault(f, "acquire", func(ctx context.Context) error { return suite.Second(p.Acquire(ctx, req)) })
	late := f.Silent() && f.Applied // the call may time out before the write is sent
	if (done || f.Writes) && !late {
		e.Equal(f.Applied, isHeld(), "%s: the state of the server", what)
	}
	grant := acquire(p, req) // the same claim, which may already hold the name
	taken(grant)

	renewal := abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: req.TTL, State: grant.State}
	p.callUnderFault(f, "renew", func(ctx context.Context) error { return suite.Second(p.Renew(ctx, renewal)) })
	taken(grant)
	_, err := suite.Send(e, p.Renew, renewal)
	e.NoError(err, "%s: the holder's renewal on the healed path", what)
	taken(grant)

	if !f.Writes {
		p.callUnderFault(f, "inspect", func(ctx context.Context) error {
			return suite.Second(p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}))
		})
		lister, ok := abstractions.As[abstractions.Lister](p.Provider)
		list := abstractions.ListRequest{Prefix: req.Name}
		if ok && suite.Second(lister.List(e.T.Context(), list)) == nil { // where listing is supported
			p.callUnderFault(f, "list", func(ctx context.Context) error { return suite.Second(lister.List(ctx, list)) })
		}
	}

	release := abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State}
	done = p.callUnderFault(f, "release", func(ctx context.Context) error { return p.Release(ctx, release) })
	e.False(done && isHeld(), "%s: released, and held", what)
	if !f.Applied {
		taken(grant)
	}
	_, err = suite.Send(e, suite.Releasing(p), release)
	e.NoError(err, what)
	req = e.Request(req.Name)
	after := acquire(p, req)
	e.Greater(after.Token, grant.Token, what)

	ends := abstractions.BreakRequest{Name: req.Name, IfToken: after.Token, Immediate: true}
	done = p.callUnderFault(f, "break", func(ctx context.Context) error { return suite.Second(p.Break(ctx, ends)) })
	e.False(done && isHeld(), "%s: broken, and held", what)
	if !f.Applied {
		taken(after)
	}
	_, err = suite.Send(e, p.Break, ends)
	e.NoError(err, what)
	last := acquire(e.P, e.Request(req.Name))
	_, err = suite.Send(e, p.Renew, abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: after.Token, TTL: req.TTL, State: after.State})
	e.ErrorIs(err, abstractions.ErrLost, "%s: a loss that is one", what)
	_, err = suite.Send(e, suite.Releasing(e.P), abstractions.ReleaseRequest{Name: last.Name, ID: last.ID, Token: last.Token, State: last.State})
	e.NoError(err, what)
}
