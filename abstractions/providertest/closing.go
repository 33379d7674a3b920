package providertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
)

var leakChecks = []check{
	// It runs before all other checks. Tests of the package that run
	// in parallel would disturb its count of goroutines.
	{name: "Close_LeavesNoGoroutines", run: func(e *env) {
		before := goleak.IgnoreCurrent()
		p := e.h.New(e.t)
		waiting, stop := context.WithCancel(e.t.Context())
		defer stop()
		holder := e.acquire(p, e.request(e.name()))
		for _, call := range e.calls(p, e.name(), holder) {
			e.NoError(call.do(waiting), call.what)
		}
		e.NoError(p.Close())
		stop()
		e.NoError(goleak.Find(before), "goroutines that outlive Close")
	}},
}

var closeChecks = []check{
	{name: "Close_EveryMethodIsClosed", run: func(e *env) {
		p := e.open()
		holder := e.acquire(p, e.request(e.name()))
		calls := e.calls(p, e.name(), holder)
		e.NoError(p.Close())
		for range 2 {
			for _, call := range calls {
				e.is(e.call(call.do), abstractions.ErrClosed, call.what)
			}
			e.Equal(e.caps, p.Capabilities(), "facts don't change")
			if err := p.Close(); err != nil {
				e.is(err, abstractions.ErrClosed, "closed again")
			}
		}
	}},
	{name: "Close_ReleasesNothing", run: func(e *env) {
		if e.peer == e.p {
			e.leaveOut("one client is the backend here")
		}
		holder := e.take(e.name())
		e.NoError(e.p.Close())
		holder.p = e.peer
		record := e.inspect(holder.req.Name)
		e.True(record.Held, "closing a client is no release")
		e.Equal(holder.token(), record.Token)
		holder.grant.State = nil
		holder.release()
	}},
	{name: "Close_DuringCalls", run: func(e *env) {
		p := e.open()
		var all, begun sync.WaitGroup
		var closed atomic.Bool
		begun.Add(8)
		for range 8 {
			all.Go(func() {
				for round := 0; ; round++ {
					late := closed.Load()
					c, err := e.try(p, e.request(e.name()))
					if round == 0 {
						begun.Done()
					}
					if err == nil {
						err = second(send(e, releasing(p), c.releaseRequest()))
					}
					if late || errors.Is(err, abstractions.ErrClosed) {
						e.is(err, abstractions.ErrClosed)
						return
					}
					if err != nil {
						e.ErrorIs(err, abstractions.ErrUnavailable, "a call that Close interrupts is of unknown outcome")
					}
				}
			})
		}
		begun.Wait()
		e.NoError(p.Close())
		closed.Store(true)
		all.Wait()
	}},
}
