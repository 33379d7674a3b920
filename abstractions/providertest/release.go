package providertest

import (
	"github.com/distributedleasing/leasing/abstractions"
)

var releaseChecks = []check{
	{name: "Trap_T14_SecondReleaseIsNoError", run: func(e *env) {
		holder := e.take(e.name())
		for range 3 {
			holder.release()
		}
		next := e.take(holder.req.Name)
		holder.release() // a late repetition
		next.isHeld()
	}},
	{name: "Trap_T26_ReleaseByAnotherIDFreesNothing", run: func(e *env) {
		holder := e.take(e.name())
		e.release(e.peer, abstractions.ReleaseRequest{
			Name: holder.req.Name, ID: abstractions.NewID(), Token: holder.token(), State: holder.grant.State,
		})
		holder.isHeld()
		holder.renew(e.long)
	}},
}
