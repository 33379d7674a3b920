package providertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var leakChecks = []suite.Check{
	// This check runs before all others. Tests of the package that run in
	// parallel would disturb the check's count of goroutines.
	{Name: "Close_LeavesNoGoroutines", Run: func(e *suite.Env) {
		before := goleak.IgnoreCurrent()
		p := e.New(e.T)
		waiting, stop := context.WithCancel(e.T.Context())
		defer stop()
		holder := e.Acquire(p, e.Request(e.Name()))
		for _, call := range calls(e, p, e.Name(), holder) {
			e.NoError(call.do(waiting), call.what)
		}
		e.NoError(p.Close())
		stop()
		e.NoError(goleak.Find(before), "goroutines that outlive Close")
	}},
}

var closeChecks = []suite.Check{
	{Name: "Close_EveryMethodIsClosed", Run: func(e *suite.Env) {
		p := e.Open()
		holder := e.Acquire(p, e.Request(e.Name()))
		calls := calls(e, p, e.Name(), holder)
		e.NoError(p.Close())
		for range 2 {
			for _, call := range calls {
				e.Is(e.Call(call.do), abstractions.ErrClosed, call.what)
			}
			e.Equal(e.Caps, p.Capabilities(), "facts don't change")
			if err := p.Close(); err != nil {
				e.Is(err, abstractions.ErrClosed, "closed again")
			}
		}
	}},
	{Name: "Close_ReleasesNothing", Run: func(e *suite.Env) {
		if e.Peer == e.P {
			e.LeaveOut("one client is the backend here")
		}
		holder := e.Take(e.Name())
		e.NoError(e.P.Close())
		holder.P = e.Peer
		record := e.Inspect(holder.Req.Name)
		e.True(record.Held, "closing a client is no release")
		e.Equal(holder.Token(), record.Token)
		holder.Grant.State = nil
		holder.Release()
	}},
	{Name: "Close_DuringCalls", Run: func(e *suite.Env) {
		p := e.Open()
		var all, begun sync.WaitGroup
		var closed atomic.Bool
		begun.Add(8)
		for range 8 {
			all.Go(func() {
				for round := 0; ; round++ {
					late := closed.Load()
					c, err := e.Try(p, e.Request(e.Name()))
					if round == 0 {
						begun.Done()
					}
					if err == nil {
						err = suite.Second(suite.Send(e, suite.Releasing(p), c.ReleaseRequest()))
					}
					if late || errors.Is(err, abstractions.ErrClosed) {
						e.Is(err, abstractions.ErrClosed)
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
