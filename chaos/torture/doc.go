// Package torture finds out whether a provider keeps its promises while things
// go wrong. Workers, each with a client and a manager of its own as a process of
// yours would have, compete for a few names under a plan of faults (package
// chaos), write to a resource that checks fencing tokens, and record all that
// they ask and are told. Then the history is checked. The check knows nothing of
// how leases work inside: it reads what was promised, and what happened.
//
//	func TestTorture(t *testing.T) {
//		torture.Test(t, torture.Options{
//			Open: func(ctx context.Context) (leasing.Provider, error) { return redislease.OpenURL(ctx, url) },
//			Plan: chaos.LostReplies(chaos.LostRepliesOptions{}),
//		})
//	}
//
// Run is the same for programs, and Report.Err its verdict. TestVirtual makes a run in virtual
// time, in which minutes pass in a moment, and if it fails looks for the smallest one that
// does, and prints the Go test that repeats it.
//
// # What is recorded
//
// A worker is a goroutine or, with Options.Process, a process; some of these are stopped past
// their TTL and some killed. Each has a client of its own:
//
//	worker       acquires, waits, holds, renews, sets metadata, writes, releases, crashes   wait, hold, write, sight, word
//	manager      package leasing, with observers                                             notice
//	lender       numbers the states of grants; one of four lends for less than was asked for
//	recorder     what the manager asks, and is told                                          operation (client)
//	chaos        the faults of Options.Plan                                                  fault
//	recorder     what the backend is asked, and answers                                      operation (backend)
//	provider     that of Options.Open
//
// The workers enter what they see, with the time before and after, and judge nothing. The
// resource that a lease protects is the run's own and checks tokens. Operations are numbered as
// the run hears of their calls and returns. Below the manager workers also deliver late copies of
// requests, and one of them breaks leases of the first name as an operator does. A history can be saved (Report.WriteHistory) and
// checked again (Verify).
//
// # What is checked
//
// A check looks at the history of one name, and stands in the file check_NAME.go. It derives all
// it needs from that history and from the options. They are made in this order:
//
//	overlap       no two holders trust a name at once. Trust is counted by the checker's own stopwatch: from the call of each
//	              request that was granted to the end of the TTL that was granted, less the margin
//	trust         no lease says that it is good for longer than that, or for less, and none is given up before
//	linearizable  twice, for what the clients saw and what the backend answered: there is an order of grants, losses, breaks and
//	              releases that explains each answer. A request of unknown outcome has taken effect at any time since, or never
//	rules         where the order at the backend is certain, the rules that all providers share (providerkit.Record) give each answer
//	tokens        each grant has a higher token than all that were over before it was asked for, no two claims share one, and none is
//	              behind the backend's clock
//	fence         the resource accepted no write with a smaller token than it had seen, and refused none of a good lease
//	renewal       each lease is renewed within the documented part of its TTL, and tried again while trust lasts; an attempt may
//	              take a third of that; no lease is renewed that should not be. It carries the state of the latest grant
//	loss          each holder is told of its loss. How late is reported as a distribution
//	release       the backend is told after the lease's context has ended, and after Do's function has returned; of a lease that
//	              was lost, or whose manager was closed under it, not while somebody may still use it
//	cleanup       a claim that nobody uses or has heard of is released, again and again until that is answered
//	liveness      a name that is free and wanted is granted: at once if nothing has gone wrong and the backend wakes waiters,
//	              else within the polls: nothing wakes it where a lease runs out that it was not told of. No waiter is
//	              overtaken again and again
//	word          what Renew, Release, Do and the context's cause tell the holder is what has become of the lease, and comes in time
//	waiting       each wait has asked for the name, and tells who stood in the way. A manager's waiters are served in the order in
//	              which they came, ask in no pause that the backend has asked for, and end when it begins to close
//	events        the lease's observer and the manager's are told once that it began, and then once how it ended; of each renewal that
//	              failed, counted, and of each request of a wait; and nobody is who has unsubscribed, or because another panics
//	metadata      the lease and the backend's record show what the holder has set, and the holder
//	listing       the name of a lease is listed once, among those that are held too, and no other that was not asked for
//	ghost         no claim is granted after its release, as long as it is one of the last eight of the name that were given up; one
//	              that is given up again may keep its place among them
//	break         a break ends the lease that it was meant for, which never comes back, and whose holder hears of the first one
//	refusal       no claim is refused as given up that nobody has released or broken
//	answer        each grant is for the name and the claim that asked, each item of a batch is answered, and a refusal names the holder
//	hang          each request returns soon after its context has ended, and each acquire at its wait limit
//	leak          nobody is refused because of a lease that must have run out. When all is closed each name is free within the
//	              TTL, the margin, what the provider states, and Options.Patience
//	close         a manager that is closed tells the holders, waits for them, but not for ever, says what was not answered, and then
//	              does nothing more
//	growth        the number of goroutines is bounded, that of a manager without leases too, and it keeps no lease that has ended
//	goroutine     none is left of those that the run has started, or a worker process
//
// The last three are made during the run, all others of its history.
//
// # What is not
//
// A lease broken with Immediate ends while its holder believes in it: the stated
// exception to exclusion. One without an end that is broken to run out lasts for the grace,
// whether or not its holder hears of it: the other. The holder may then overlap its successor, but not get past
// the fence. The same goes for a process that was stopped: its trust has ended by
// the clock, whatever it still believes.
//
// Liveness and renewals are checked up to Options.Patience: 10 ms in virtual time, and seconds on a
// real machine, where a lease that is renewed late is mostly not noticed. History and hand-over
// are the conformance suite's (abstractions/providertest). Leases
// that never end are not taken in runs with processes, breaks that let a lease run out, or
// Options.Repeatable.
//
// A run that breaks an assumption on purpose (a server that forgets its leases, a
// failover that loses writes) says so in Options.AssumptionsBroken. Then overlap, linearizable,
// rules, cleanup, liveness, listing, ghost, break and refusal are not checked, nor whether a holder's write was
// refused; all else is.
//
// A run without a violation proves nothing. One with a violation does, and the
// report says how to see it again.
package torture
