package providertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// A proxy, an ingress or a gateway before the server answers in its place: with a redirect to
// its own page, with a page, with a refusal, with half of an answer, or not at all. The server
// may have applied the request. No such answer says anything about a lease.
var httpChecks = []check{
	{name: "HTTP_Trap_T109_ARedirectIsNoAnswer", needs: "HTTP", run: func(e *env) { e.behindProxies(redirects()) }},
	{name: "HTTP_Trap_T110_ASuccessIsTheServers", needs: "HTTP", run: func(e *env) { e.behindProxies(successes()) }},
	{name: "HTTP_Trap_T111_ARefusalIsTheServers", needs: "HTTP", run: func(e *env) { e.behindProxies(refusals()) }},
	{name: "HTTP_Trap_T112_AnAnswerIsWhole", needs: "HTTP", run: func(e *env) { e.behindProxies(torn()) }},
	{name: "HTTP_Manager_ALossBehindAProxyIsTold", needs: "HTTP", waits: true, run: func(e *env) {
		sideBySide(2, func(i int) { e.lossBehindProxy([]*fault{redirects()[1], successes()[4]}[i]) })
	}},
	{name: "HTTP_Manager_AProxyEndsNeitherLeaseNorWait", needs: "HTTP", waits: true, run: func(e *env) {
		sideBySide(3, func(i int) {
			f := []*fault{refusals()[0], refusals()[3], torn()[0]}[i]
			e.leaseBehindProxy(f)
			e.waitBehindProxy(f)
		})
	}},
}

func redirects() (all []*fault) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		all = append(all, &fault{name: fmt.Sprint("redirect ", status), status: status})
	}
	return all
}

const (
	page = "<!DOCTYPE html>\n<html><head><title>Sorry</title></head>\n<body>Back soon.</body></html>\n"
	html = "text/html; charset=utf-8"
)

func successes() []*fault {
	all := []*fault{
		{name: "an empty 200", status: 200}, {name: "an empty 201", status: 201}, {name: "204", status: 204},
		{name: "a page", status: 200, kind: html, body: page},
	}
	for _, body := range []string{`{"status":"maintenance"}`, "{}", "[]", "null"} {
		all = append(all, &fault{name: "200 " + body, status: 200, kind: "application/json", body: body})
	}
	return all
}

func refusals() (all []*fault) {
	for _, status := range []int{404, 403, 401, 409, 412, 410, 400} {
		all = append(all,
			&fault{name: fmt.Sprint("a page with ", status), status: status, kind: html, body: page},
			&fault{name: fmt.Sprint("a text with ", status), status: status, kind: "text/plain", body: "404 page not found\n"})
	}
	return all
}

func torn() []*fault {
	return []*fault{{name: "half an answer", cut: true}, {name: "silence"}}
}

// proxied is a client behind a proxy, beside e.p, which is not.
type proxied struct {
	abstractions.Provider
	*proxy
	e *env
}

func (e *env) proxied() *proxied {
	route := e.h.HTTP(e.t, e.p)
	p := &proxied{proxy: newProxy(e.t, route), e: e}
	p.Provider = route.Open(e.t, p.URL)
	e.t.Cleanup(func() { _ = p.Provider.Close() })
	return p
}

// behindProxies has each fault answer all requests, writes that the server does not get, and
// writes that it gets.
func (e *env) behindProxies(faults []*fault) {
	var all []*fault
	for _, f := range faults {
		kind := func(writes, applied bool) *fault {
			return &fault{name: f.name, status: f.status, kind: f.kind, body: f.body, cut: f.cut, writes: writes, applied: applied}
		}
		if all = append(all, kind(false, f.cut), kind(true, true)); !f.cut {
			all = append(all, kind(true, false))
		}
	}
	next := make(chan *fault, len(all))
	for _, f := range all {
		next <- f
	}
	close(next)
	sideBySide(4, func(int) {
		p := e.proxied()
		for f := range next {
			p.meets(f)
		}
		e.Zero(p.led.Load(), "requests to the page of a redirect")
	})
}

// silence is the bound of a call that the proxy leaves without an answer.
const silence = 300 * time.Millisecond

// silent reports whether the fault gives no answer.
func (f *fault) silent() bool { return f.status == 0 && !f.cut }

// under makes a call while the fault answers, and reports whether the call has succeeded. The call
// may succeed only if the server has applied the request and a read has shown the result. Otherwise
// its outcome is unknown.
func (p *proxied) under(f *fault, what string, call func(ctx context.Context) error) (done bool) {
	what += " under " + f.String()
	ctx, cancel := context.WithTimeout(p.e.t.Context(), patience)
	if f.silent() {
		cancel()
		ctx, cancel = context.WithTimeout(p.e.t.Context(), silence)
	}
	defer cancel()
	p.fault.Store(f)
	err := call(ctx)
	p.fault.Store(nil)
	if err == nil {
		p.e.True(f.applied && f.writes, "%s: success, although the server has not answered", what)
		return true
	}
	p.e.is(err, abstractions.ErrUnavailable, what)
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

// meets goes through the verbs.
func (p *proxied) meets(f *fault) {
	e, req := p.e, p.e.request(p.e.name())
	what := f.String()
	acquire := func(p abstractions.Provider, req abstractions.AcquireRequest) abstractions.Grant {
		grant, err := send(e, p.Acquire, req)
		e.NoError(err, what)
		return grant
	}
	taken := func(by abstractions.Grant) {
		_, err := send(e, e.p.Acquire, e.request(req.Name))
		e.Equal(by.Token, e.held(err, what).Holder.Token, what)
	}
	isHeld := func() bool {
		record, err := send(e, e.p.Inspect, abstractions.InspectRequest{Name: req.Name})
		e.NoError(err, what)
		return record.Held
	}

	done := p.under(f, "acquire", func(ctx context.Context) error { return second(p.Acquire(ctx, req)) })
	late := f.silent() && f.applied // the bound may be over before the write is sent
	if (done || f.writes) && !late {
		e.Equal(f.applied, isHeld(), "%s: the state of the server", what)
	}
	grant := acquire(p, req) // the same claim, which may already hold the name
	taken(grant)

	renewal := abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: req.TTL, State: grant.State}
	p.under(f, "renew", func(ctx context.Context) error { return second(p.Renew(ctx, renewal)) })
	taken(grant)
	_, err := send(e, p.Renew, renewal)
	e.NoError(err, "%s: the holder's renewal on the healed path", what)
	taken(grant)

	if !f.writes {
		p.under(f, "inspect", func(ctx context.Context) error {
			return second(p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name}))
		})
		lister, ok := abstractions.As[abstractions.Lister](p.Provider)
		list := abstractions.ListRequest{Prefix: req.Name}
		if ok && second(lister.List(e.t.Context(), list)) == nil { // where it is supported
			p.under(f, "list", func(ctx context.Context) error { return second(lister.List(ctx, list)) })
		}
	}

	release := abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State}
	done = p.under(f, "release", func(ctx context.Context) error { return p.Release(ctx, release) })
	e.False(done && isHeld(), "%s: released, and held", what)
	if !f.applied {
		taken(grant)
	}
	_, err = send(e, releasing(p), release)
	e.NoError(err, what)
	req = e.request(req.Name)
	after := acquire(p, req)
	e.Greater(after.Token, grant.Token, what)

	ends := abstractions.BreakRequest{Name: req.Name, IfToken: after.Token, Immediate: true}
	done = p.under(f, "break", func(ctx context.Context) error { return second(p.Break(ctx, ends)) })
	e.False(done && isHeld(), "%s: broken, and held", what)
	if !f.applied {
		taken(after)
	}
	_, err = send(e, p.Break, ends)
	e.NoError(err, what)
	last := acquire(e.p, e.request(req.Name))
	_, err = send(e, p.Renew, abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: after.Token, TTL: req.TTL, State: after.State})
	e.ErrorIs(err, abstractions.ErrLost, "%s: a loss that is one", what)
	_, err = send(e, releasing(e.p), abstractions.ReleaseRequest{Name: last.Name, ID: last.ID, Token: last.Token, State: last.State})
	e.NoError(err, what)
}

// managerOver is a manager over a provider. The check closes the manager.
func (e *env) managerOver(p abstractions.Provider, options leasing.Options) *leasing.Manager {
	m, err := leasing.NewManager(p, options)
	e.NoError(err)
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), e.h.Slack)
		defer cancel()
		_ = m.Close(ctx)
	})
	return m
}

// lossBehindProxy: a holder behind a proxy that answers in place of the server loses its lease,
// and knows before another process has the name.
func (e *env) lossBehindProxy(f *fault) {
	p := e.proxied()
	short := leasing.Options{TTL: grantable(max(2*time.Second, e.caps.MinTTL), e.caps)}
	behind, direct, name := e.managerOver(p, short), e.managerOver(e.p, leasing.Options{TTL: e.long}), e.name()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	lease, err := behind.Acquire(ctx, name)
	e.NoError(err)
	defer p.fault.Store(nil)
	p.fault.Store(f)
	next, err := direct.Acquire(ctx, name)
	lost := lease.Err()
	e.NoError(err, "%v", f)
	e.ErrorIs(lost, abstractions.ErrLost, "%v: two holders", f)
	e.Greater(next.Token(), lease.Token())
	_, err = behind.TryAcquire(ctx, name)
	e.ErrorIs(err, abstractions.ErrUnavailable, "%v: the proxy's answer counts", f)
	p.fault.Store(nil)
	_, err = behind.TryAcquire(ctx, name)
	e.ErrorIs(err, abstractions.ErrHeld, f)
	e.Zero(p.led.Load(), "requests to the page of a redirect")
	e.NoError(next.Release(ctx))
}

// eventually waits until a condition holds, for at most a call's patience.
func (e *env) eventually(what string, is func() bool) {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.FailNow("not in time: " + what)
		}
	}
}

// leaseBehindProxy: a lease is held through a while of a proxy's refusals.
func (e *env) leaseBehindProxy(f *fault) {
	p := e.proxied()
	behind, name := e.managerOver(p, leasing.Options{TTL: e.long, RenewCadence: 200 * time.Millisecond}), e.name()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	lease, err := behind.Acquire(ctx, name)
	e.NoError(err)
	f = &fault{name: f.name, status: f.status, kind: f.kind, body: f.body, cut: f.cut}
	p.fault.Store(f)
	e.eventually("a renewal, and the look after the write, are answered by the proxy", func() bool { return f.answered.Load() > 1 || lease.Err() != nil })
	p.fault.Store(nil)
	before := lease.Renewals()
	e.eventually("the lease is renewed", func() bool { return lease.Renewals() > before || lease.Err() != nil })
	e.NoError(lease.Err(), "%v", f)
	_, err = send(e, e.p.Acquire, e.request(name))
	e.ErrorIs(err, abstractions.ErrHeld, f)
	e.NoError(lease.Release(ctx))
}

// waitBehindProxy: an Acquire waits through a while of a proxy's refusals.
func (e *env) waitBehindProxy(f *fault) {
	p := e.proxied()
	behind, req := e.managerOver(p, leasing.Options{TTL: e.long}), e.request(e.name())
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	grant, err := send(e, e.p.Acquire, req)
	e.NoError(err)
	f = &fault{name: f.name, status: f.status, kind: f.kind, body: f.body, cut: f.cut}
	p.fault.Store(f)
	var all sync.WaitGroup
	defer all.Wait()
	ended := make(chan error, 1)
	all.Go(func() {
		lease, err := behind.Acquire(ctx, req.Name)
		if err == nil {
			err = lease.Release(ctx)
		}
		ended <- err
	})
	e.eventually("the wait is answered by the proxy twice", func() bool { return f.answered.Load() > 1 || len(ended) > 0 })
	p.fault.Store(nil)
	_, err = send(e, releasing(e.p), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State})
	e.NoError(err)
	if err := <-ended; err != nil {
		e.NoError(errors.Join(fmt.Errorf("a wait behind a proxy that answers %v", f), err))
	}
}
