// Package election elects a leader among processes. At most one candidate at a
// time leads, until its term ends and the next one takes over.
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
// A candidate waits for the lease of the election's name. When it has the lease,
// OnElected runs with a context that ends with the lease; context.Cause tells
// why: the lease was lost, the candidate resigned, or the context given to Run
// ended. The lease is renewed until OnElected has returned, and then released.
// So one leader's OnElected has returned before the next one's begins. OnResigned
// is called last, with the reason why the term ended. After a pause the candidate
// stands again, until it resigns or its context ends.
//
// # What it does not promise
//
// A leader learns of a lost lease before another candidate can be elected,
// but it is not stopped. If OnElected goes on after its context has ended, or the
// process is paused, the next leader starts beside it once the lease has run
// out at the backend. Return soon after the context ends, and pass the lease's
// token to what the leader writes to: see package fencing.
//
// Current and Watch show followers who leads. Their results were true at the
// backend a moment ago. They are good for finding the leader, not for acting in
// its place.
package election
