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
// Run is the same for programs, and Report.Err its verdict.
//
// Workers are goroutines, or with Options.Process processes, some of which are
// stopped past their TTL and some killed. In virtual time (testing/synctest) over
// memory's provider minutes pass in a second, and with Options.Repeatable a seed
// gives the same history each time.
//
// # What is checked
//
//   - overlap: no two holders trust a name at the same time. The time of trust is
//     the manager's own word, from when the acquire returned until the trust runs
//     out, on the machine's clock.
//   - linearizable, twice: what the clients saw, and what the backend answered
//     below the faults. Each is a possible order of grants, losses and releases,
//     in which no lease ends before its time and no claim stands in its own way. A
//     request whose outcome is unknown may have been applied at any time since, or
//     never (checked with porcupine).
//   - tokens: each grant of a name has a higher token than all that were over
//     before it was asked for, and no two claims share one.
//   - fence: the resource accepted no write with a smaller token than it had seen,
//     and refused none of a holder whose lease was good.
//   - loss: each holder was told of its loss. How late, after the end of its
//     trust, is reported as a distribution.
//   - ghost: no claim is granted after its release, as long as it is the last of
//     the name that was given up (backends need not remember more).
//   - answer: each grant is for the name and the claim that asked.
//   - refusal: no claim is refused as given up that nobody has released or broken.
//   - leak: nobody is refused because of a lease that must have run out by the margin
//     and the precision that the provider states. Once the faults have stopped and all
//     is closed, each name is free within the TTL, these, and Options.Patience.
//   - goroutine: none is left that the run has started, or a worker process.
//   - hang: every call returned soon after its context ended.
//
// # What is not
//
// A lease broken with Immediate ends while its holder believes in it: the stated
// exception to exclusion. Its holder may overlap its successor, but not get past
// the fence. The same goes for a process that was stopped: its trust has ended by
// the clock, whatever it still believes.
//
// Inspect, List and history, and breaks that name a token, are not asked for: that is
// the conformance suite's (abstractions/providertest).
//
// A run that breaks an assumption on purpose (a server that forgets its leases, a
// failover that loses writes) says so in Options.AssumptionsBroken. Then overlap,
// linearizability, ghosts and refusals are not checked, nor whether a holder's write was
// refused; all else is.
//
// A run without a violation proves nothing. One with a violation does, and the
// report says how to see it again.
package torture
