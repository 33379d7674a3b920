// Package deadlock finds out when holders of leases wait for each other in a circle,
// also across processes and machines, and has one of them give way.
//
//	actor, err := deadlock.New(manager, deadlock.Options{})
//	...
//	accounts, err := actor.Acquire(ctx, "accounts/7", nil)
//	...
//	ledger, err := actor.Acquire(ctx, "ledger", nil)
//	if circle, is := errors.AsType[*deadlock.Error](err); is {
//		// circle.Waits says who holds and wants what. Release accounts/7, and begin again.
//	}
//
// Where all names are known beforehand no circle can come about: package multilease
// acquires them in one order. This package is for those who learn of the next name
// while they hold the first.
//
// # How it works
//
// An [Actor] is one line of work: it holds leases, and waits for one name at a time.
// If a wait has lasted for Options.After, and the actor holds anything, then the
// metadata of each of its leases say what it waits for, until the wait is over: see
// [Key]. So everybody sees it with Manager.Inspect, on every provider, and no other
// record is kept. (Manager.Waiters says who waits, but not what those hold, and not
// every provider has it.) The wait goes from the holder of the wanted name to what that one
// waits for, and so on, one Inspect for each, right after that and again every
// Options.Every. If it comes back to a lease of the actor's own that is a circle.
// (Chandy, Misra and Haas, "Distributed deadlock detection", 1983, has this walk along
// the edges, with messages.)
//
// A circle is reported only if a second walk finds the same claims in the same waits.
// Then all of them were at work at one moment, between the two: a wait that begins
// anew is another one, and a name that was granted has another claim.
//
// All actors of a circle find it, and choose the same one to give way: the one that
// has waited the least, by its own clock. Options.Policy says how. Give all of them
// one policy.
//
// # What it promises
//
// A circle of actors is found when the last one of them has waited for After and its
// metadata are written, or Every later. What is found was a circle. Both depend on the
// backend showing what was written: where reads may lag behind (Cosmos DB with session
// consistency) a circle may be found later, and one that has just ended may be
// reported.
//
// # What it does not promise
//
// Holders that are no actors, or hold nothing, are in no circle that is found. An
// actor whose renewals fail can't say what it waits for, and its leases run out soon.
// One that waits in any other way (for a lock in the process, a channel, an HTTP call)
// is not seen waiting. And nothing is prevented: the work that gives way begins again,
// so it should have done nothing yet that can't be repeated.
//
// # What it costs
//
// A wait that is shorter than After, or of an actor that holds nothing, costs nothing.
// Any other costs two renewals of each lease that the actor holds, to say so and to
// take it back, and every Options.Every one Inspect for each actor on the way to the
// end of the chain: one, where the holder waits for nobody. The metadata take some 100
// bytes and the wanted name of the 4 KB that a lease has.
package deadlock
