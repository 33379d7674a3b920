// Package election elects a leader among processes. At most one candidate
// leads at a time, until its term ends and another takes over.
//
//	err := election.Run(ctx, manager, election.Options{
//		Name: "billing/leader",
//		OnElected: func(ctx context.Context, lease *leasing.Lease) error {
//			return runBilling(ctx, lease.Token()) // until ctx ends
//		},
//	})
//
// # A term
//
// A candidate waits for the lease of the election's name. When it has the lease,
// it calls OnElected with a context that ends with the lease. context.Cause says
// why it ended: the lease was lost, the candidate resigned, or the context given
// to Run ended. The lease is renewed until OnElected has returned, and then
// released. So, unless the lease is lost, one leader's OnElected has returned before the next leader's OnElected begins.
// Then OnResigned is called with the reason why the term ended. After a pause
// the candidate stands again, until it resigns or its context ends.
//
// # What it does not promise
//
// A leader's context ends before another candidate can be elected, but nothing
// stops its work. If OnElected continues after its context has ended, or the
// process is paused, the next leader starts beside it once the lease has run out
// at the backend. Return soon after the context ends, and pass the lease's token
// to the resources that the leader writes to: see package fencing.
//
// Followers find the leader with Current and Watch. The results may be out of date by the time they
// arrive. Do not use them to act in the leader's place.
package election
