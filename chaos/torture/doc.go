// Package torture tests whether a provider keeps its promises under faults.
// Workers compete for a few names under a plan of faults (package chaos), each
// with its own client and manager, like separate processes. They write to a
// resource that checks fencing tokens, and record every call and its result.
// Then the recorded history is checked. The checks do not depend on how leases
// are implemented: they compare the promises with the recorded events.
//
//	func TestTorture(t *testing.T) {
//		torture.Test(t, torture.Options{
//			Open: func(ctx context.Context) (leasing.Provider, error) { return redislease.OpenURL(ctx, url) },
//			Plan: chaos.LostReplies(chaos.LostRepliesOptions{}),
//		})
//	}
//
// Run does the same outside of tests; Report.Err is its verdict. TestVirtual runs in virtual
// time, in which minutes pass in a moment. If a run fails, TestVirtual searches for the
// smallest failing run, and prints a Go test that repeats that run.
//
// # What is recorded
//
// A worker is a goroutine or, with Options.Process, a process; some of the processes are
// stopped past their TTL and some killed. Each worker has a client of its own:
//
//	worker       acquires, waits, holds, renews, sets metadata, writes, releases, crashes   wait, hold, write, reading, answer
//	manager      package leasing, with observers                                             observation
//	checker      numbers the states of grants, and in every fourth client shortens the granted TTL
//	recorder     the manager's requests and their replies                                    operation (client)
//	chaos        the faults of Options.Plan                                                  fault
//	recorder     the backend's requests and its replies                                      operation (backend)
//	provider     the provider of Options.Open
//
// The workers record each call and its result, with the times before and after, and check nothing. The protected resource
// belongs to the run and checks tokens. Operations are numbered in the order in which the run receives their calls and returns.
// Below the manager, workers also send late copies of requests, and one of them breaks leases of the first name, like an
// operator. A history can be saved (Report.WriteHistory) and checked again (Verify).
//
// # What is checked
//
// Each check reads the history of one name, and uses only that history and the options. These are the checks:
//
//	overlap       no two holders trust a name at once. The checker measures trust with its own stopwatch: from the call of each granted
//	              request to the end of the granted TTL, less the margin
//	trust         no lease reports more or less trust than that, and none is given up before its trust ends
//	linearizable  there is an order of grants, losses, breaks and releases that explains every answer: once for the answers that the
//	              clients saw, and once for those of the backend. A request of unknown outcome may take effect at any later time, or never
//	rules         where the order at the backend is certain, each answer follows the rules that all providers share (providerkit.Record)
//	tokens        each grant has a higher token than all grants that had ended before it was requested, no two claims share a token, and
//	              no token is behind the backend's clock
//	fence         the resource accepted no write with a token smaller than one it had seen, and refused no write of a valid lease
//	renewal       each lease is renewed within the documented part of its TTL, and a failed renewal is retried while trust lasts; an
//	              attempt may take a third of that time; no lease is renewed that should not be. Each renewal has the state of the latest grant
//	loss          each holder is notified of its loss. The delay is reported as a distribution
//	release       the release is sent after the lease's context has ended, and after Do's function has returned. A lease that was lost, or
//	              whose manager was closed, is not released while it may still be in use
//	cleanup       a claim of unknown outcome, or one without a user, is released, and the release is repeated until the backend answers
//	liveness      a free name with waiters is granted: at once if no fault has happened and the backend pushes wake-ups, otherwise within
//	              the polling interval. The backend need not push a wake-up when a lease runs out. No waiter is overtaken again and again
//	results       the results of Renew and Release, Do's error and the context's cause agree with the history of the lease, and come in
//	              time
//	waiting       each wait has sent a request, and its error names the holder. A manager serves its waiters in order of arrival, sends
//	              nothing in a pause that the backend has asked for, and ends all waits when it begins to close
//	events        the observers of the lease and of the manager get one event for its beginning and one for its end, and one, with its
//	              count, for each failed renewal and each failed request of a wait. An unsubscribed observer gets none, and a panic of one
//	              observer does not affect others
//	metadata      the lease and the backend's record show the holder, and the metadata that it has set
//	listing       each held lease is listed once, with and without HeldOnly, and no name outside of the prefix is listed
//	ghost         no claim is granted after its release, as long as it is one of the last eight ended IDs of the name; an ID that is
//	              released again may keep its place among them
//	break         a break ends the lease that it was meant for; that lease never comes back, and its holder is notified of the first break
//	refusal       no claim is refused as ended unless it was released or broken
//	answer        each grant is for the requested name and claim, each item of a batch is answered, and each refusal names the holder
//	hang          each request returns soon after its context has ended, and each acquire at its wait limit
//	leak          no acquire is refused because of a lease that must have run out. After all clients are closed each name becomes free
//	              within the TTL, the margin, the provider's Lateness and Options.Patience
//	close         a closed manager cancels its leases and waits for their holders for a bounded time, reports the releases that were not
//	              answered, and then does nothing more
//	growth        the number of goroutines is bounded, even for a manager without leases, and the manager keeps no lease that has ended
//	goroutine     no goroutine started by the run, or by a worker process, is left
//
// The checks growth and goroutine are made during the run, and so are parts of trust,
// renewal, events, hang, leak and close. Everything else is checked from the history.
//
// # What is not checked
//
// Mutual exclusion has two documented exceptions. A lease broken with Immediate ends while its holder still trusts
// the lease. An infinite lease that is broken without Immediate ends after BreakOptions.Grace, whether or not its
// holder has noticed the break. In both cases the holder may overlap its successor, but the fence must refuse the
// former holder's writes. The same holds for a stopped process, whose trust ends by the clock even if it does not
// notice.
//
// Liveness and renewals are checked with a tolerance of Options.Patience: 10 ms in virtual time,
// and seconds on a real machine, where most late renewals go unnoticed. History and hand-over are
// tested by the conformance suite (abstractions/providertest). Infinite leases are not used in runs
// with processes, with breaks that let a lease run out, or with Options.Repeatable.
//
// Set Options.AssumptionsBroken for a run that breaks an assumption on purpose (a server that forgets its
// leases, a failover that loses writes). Then overlap, linearizable, rules, cleanup, liveness, listing, ghost,
// break and refusal are not checked, nor is it an error if a holder's write was refused, or if the backend
// shows another holder or other metadata. All else is checked.
//
// A run without a violation proves nothing. A violation proves a defect, and
// the report says how to repeat the run.
package torture
