// Package election elects a leader among processes: at most one candidate at a
// time is elected to a name, works until its term ends, and the next one takes
// over.
//
//	err := election.Run(ctx, manager, election.Options{
//		Name: "billing/leader",
//		OnElected: func(ctx context.Context, lease leasing.Lease) error {
//			return runBilling(ctx, lease.Token()) // until ctx ends
//		},
//	})
//
// # A term
//
// A candidate waits for the lease of the election's name. When it has it,
// OnElected runs with a context that ends with the lease; context.Cause tells
// why: the lease was lost, the candidate resigned, or the context given to Run
// ended. The lease is renewed until OnElected has returned, then released, and
// then OnResigned hears why the term ended. So one leader's OnElected has
// returned before the next one's begins. After a pause the candidate stands
// again, until it resigns or its context ends.
//
// # What it does not promise
//
// A leader whose lease is lost hears of it before anybody else can be elected,
// but is not stopped: if OnElected goes on after its context has ended, or the
// process is paused, the next leader starts beside it once the lease has run
// out at the backend. Return soon after the context ends, and hand the lease's
// token to what the leader writes to: see package fencing.
//
// Current and Watch show followers who leads. What they return was true at the
// backend a moment ago; it is good for finding the leader, not for acting in
// its place.
package election
