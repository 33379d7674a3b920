// Package deadlock detects deadlocks among holders of leases, across processes and
// machines, and resolves them: of the holders that wait for each other in a cycle,
// one gives way.
//
//	actor, err := deadlock.New(manager, deadlock.Options{})
//	...
//	accounts, err := actor.Acquire(ctx, "accounts/7")
//	...
//	ledger, err := actor.Acquire(ctx, "ledger")
//	if cycle, is := errors.AsType[*deadlock.Error](err); is {
//		// cycle.Waits lists the holders and their waits. Release accounts/7, and start over.
//	}
//
// If all names are known beforehand, use package multilease, which acquires them in
// one order and so prevents cycles. This package is for programs that learn the
// next name while they already hold a lease.
//
// # How it works
//
// An [Actor] is a sequence of work: it holds leases, and waits for one name at a time. When
// a wait has lasted for Options.After, an actor that holds leases writes the wanted name
// into the metadata of each of them, until the wait is over: see [Key]. So every process can read
// the wait with Manager.Inspect, on every provider, and no other record is kept. (Manager.Waiters
// lists the waiters, but not the leases that they hold, and not every provider supports it.) Then,
// and again every Options.Every, the actor follows the chain of waits: from the holder of the
// wanted name to the name that this holder waits for, and so on, with one Inspect per name. If the
// chain leads back to one of its own leases, there is a cycle. (Chandy, Misra and Haas,
// "Distributed deadlock detection", 1983, describe this walk, with messages.)
//
// The actor then confirms the cycle: it writes the cycle's hash into its metadata. It checks four times as
// often until all other actors have confirmed the cycle, and then reports the cycle. When the first of them
// confirmed, all waits were under way: that actor had seen the others' waits, and these were confirmed later.
// Every new wait has a new ID, and every grant is a new claim. An actor that gave up its wait while it was cut
// off still seems to wait, but confirms nothing.
//
// All actors of a cycle find it, and choose the same victim: the actor that has
// waited the least, by its own clock. Options.Policy defines how it gives way.
// All actors must have the same policy.
//
// # What it promises
//
// A cycle is found within 1.25 times Every after the last of its actors has waited for After and has
// written its metadata. An actor that is cut off delays the report until it is connected again or its leases have run out. There
// are no false reports: all waits of a cycle were under way at one moment, at most a few checks ago. Both promises need reads
// that show the latest write. Where reads may lag (Cosmos DB with session consistency), a cycle may be found later, and one that
// has just ended may be reported.
//
// # What it does not promise
//
// A cycle is not found if one of its holders is not an actor. An actor whose renewals fail can't
// publish its wait, and its leases run out soon. Other kinds of waiting (for a mutex, a channel, an
// HTTP call) are not seen. Deadlocks are resolved, not prevented: the work that gives way starts
// over, so it must not have done anything that can't be repeated.
//
// # What it costs
//
// A wait that is shorter than After, or whose actor has no leases, costs nothing. Any other wait costs two renewals of each
// lease that the actor holds, to write the metadata and to remove them, and a third if there is a cycle. At intervals of
// Options.Every it costs one Inspect for each actor along the chain: a single one if the holder does not wait. The metadata
// take some 150 bytes plus the wanted name, out of the 4 KB of metadata that a lease may carry.
package deadlock
