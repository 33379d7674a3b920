package managersuite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/proxy"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var proxyChecks = []suite.Check{
	{Name: "HTTP_Manager_ALossBehindAProxyIsReported", Needs: "HTTP", Waits: true, Run: func(e *suite.Env) {
		suite.SideBySide(2, func(i int) { lossBehindProxy(e, []*proxy.Fault{proxy.Redirects()[1], proxy.Successes()[4]}[i]) })
	}},
	{Name: "HTTP_Manager_AProxyEndsNeitherLeaseNorWait", Needs: "HTTP", Waits: true, Run: func(e *suite.Env) {
		suite.SideBySide(3, func(i int) {
			f := []*proxy.Fault{proxy.Refusals()[0], proxy.Refusals()[3], proxy.Interruptions()[0]}[i]
			leaseBehindProxy(e, f)
			waitBehindProxy(e, f)
		})
	}},
}

// managerOver returns a manager over a provider. The manager is closed at the end of the check.
func managerOver(e *suite.Env, p abstractions.Provider, options leasing.Options) *leasing.Manager {
	m, err := leasing.NewManager(p, options)
	e.NoError(err)
	e.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.T.Context()), e.Slack)
		defer cancel()
		_ = m.Close(ctx)
	})
	return m
}

// lossBehindProxy checks that a holder behind a proxy that answers in place of the server loses
// its lease, and learns of the loss before another process has the name.
func lossBehindProxy(e *suite.Env, f *proxy.Fault) {
	p := e.OpenProxied()
	short := leasing.Options{TTL: suite.Grantable(max(2*time.Second, e.Caps.MinTTL), e.Caps)}
	behind, direct, name := managerOver(e, p, short), managerOver(e, e.P, leasing.Options{TTL: e.Long}), e.Name()
	ctx, cancel := context.WithTimeout(e.T.Context(), suite.CallTimeout)
	defer cancel()
	lease, err := behind.Acquire(ctx, name)
	e.NoError(err)
	defer p.Fault.Store(nil)
	p.Fault.Store(f)
	next, err := direct.Acquire(ctx, name)
	lost := lease.Err()
	e.NoError(err, "%v", f)
	e.ErrorIs(lost, abstractions.ErrLost, "%v: two holders", f)
	e.Greater(next.Token(), lease.Token())
	_, err = behind.TryAcquire(ctx, name)
	e.ErrorIs(err, abstractions.ErrUnavailable, "%v: the proxy's answer counts", f)
	p.Fault.Store(nil)
	_, err = behind.TryAcquire(ctx, name)
	e.ErrorIs(err, abstractions.ErrHeld, f)
	e.Zero(p.Followed.Load(), "requests to the page of a redirect")
	e.NoError(next.Release(ctx))
}

// leaseBehindProxy checks that a lease is kept while a proxy refuses requests for some time.
func leaseBehindProxy(e *suite.Env, f *proxy.Fault) {
	p := e.OpenProxied()
	behind, name := managerOver(e, p, leasing.Options{TTL: e.Long, RenewCadence: 200 * time.Millisecond}), e.Name()
	ctx, cancel := context.WithTimeout(e.T.Context(), suite.CallTimeout)
	defer cancel()
	lease, err := behind.Acquire(ctx, name)
	e.NoError(err)
	f = f.Like(false, false)
	p.Fault.Store(f)
	e.Await("a renewal, and the look after the write, are answered by the proxy", func() bool { return f.Answered.Load() > 1 || lease.Err() != nil })
	p.Fault.Store(nil)
	before := lease.Renewals()
	e.Await("the lease is renewed", func() bool { return lease.Renewals() > before || lease.Err() != nil })
	e.NoError(lease.Err(), "%v", f)
	_, err = suite.Send(e, e.P.Acquire, e.Request(name))
	e.ErrorIs(err, abstractions.ErrHeld, f)
	e.NoError(lease.Release(ctx))
}

// waitBehindProxy checks that an Acquire keeps waiting while a proxy refuses requests for some
// time.
func waitBehindProxy(e *suite.Env, f *proxy.Fault) {
	p := e.OpenProxied()
	behind, req := managerOver(e, p, leasing.Options{TTL: e.Long}), e.Request(e.Name())
	ctx, cancel := context.WithTimeout(e.T.Context(), suite.CallTimeout)
	defer cancel()
	grant, err := suite.Send(e, e.P.Acquire, req)
	e.NoError(err)
	f = f.Like(false, false)
	p.Fault.Store(f)
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
	e.Await("the wait is answered by the proxy twice", func() bool { return f.Answered.Load() > 1 || len(ended) > 0 })
	p.Fault.Store(nil)
	_, err = suite.Send(e, suite.Releasing(e.P), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State})
	e.NoError(err)
	if err := <-ended; err != nil {
		e.NoError(errors.Join(fmt.Errorf("a wait behind a proxy that answers %v", f), err))
	}
}
