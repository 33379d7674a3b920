// Package semaphore lets at most N holders in at a time, across processes and
// machines: to keep the calls to somebody else's API under its limit, say.
//
//	payments, err := semaphore.New(manager, semaphore.Options{Name: "external/payments", Permits: 10})
//	...
//	err = payments.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
//		return gateway.Charge(ctx, request) // ctx ends before the permit can be somebody else's
//	})
//
// # How it works
//
// A semaphore of N permits is N leases, its slots: external/payments/slot/0 to
// external/payments/slot/9. A Permit is the lease of one slot, and is renewed
// and lost as any lease is: when its context ends, so does the right to work.
// A holder that crashes takes its permit along until the lease's TTL has passed.
//
// So at most N permits are trusted at any moment, as the backend decides, and
// what a lease does not promise a permit doesn't either: a paused process is
// not stopped, and may work beside N others when it wakes up.
//
// # Fencing
//
// Each slot has fencing tokens of its own, which rise from one holder of that
// slot to the next. The tokens of two slots are unrelated. So a resource can't
// compare the tokens of all holders; it can refuse the former holders of each
// slot: give it Permit.Name, the slot's name, and Permit.Token, and let it
// remember the highest token for each name, as sqlfence.Table does. Then it
// admits the latest holder of each slot that it has heard of: N at most.
//
// # Waiting
//
// Those who wait in one Semaphore are served in the order in which they came.
// They share one search for a free slot, so a hundred of them cost the backend
// what one does. Make one Semaphore for a name and process, and share it.
//
// An Acquire asks for slots that this process does not hold, in an order of
// the process's own, until it gets one. If a share f of them is free that takes
// 1/f requests or so. After 8 in vain it waits, and while anybody in the
// process waits the backend gets, from that process:
//
//   - for each of a few slots (Options.Watch, 4), what one Manager.Acquire that
//     waits costs: where the provider pushes wake-ups, a request when the slot
//     is released and one in 4 s; where it doesn't, 4 in 3 s. Every minute or
//     two another slot is waited for instead.
//   - 8 requests in 3 s that look at other slots, or, with more than 120
//     permits, as many as find each slot asked for once in Options.Sweep, a
//     minute: 22 a second with 1000 permits.
//
// Each slot that was asked for in vain is a failed acquire in the metrics of
// package leasing.
//
// A slot released in this process goes to the first who waits in it, with one
// request and no search. After 15 s of such hand-overs in a row a slot is left
// alone for a second, so that other processes get their turn. Between
// processes no order is promised, except that nobody is passed over for good:
// every slot is asked for within Options.Sweep.
//
// # Changing the number of permits
//
// Slots are told apart by their numbers alone. While processes disagree about
// Permits, in the middle of a rollout, those with more use all slots that the
// others use, and some more: the largest number rules until the last process
// that has it has ended, and never is a number exceeded that some process was
// given. A smaller number holds from then on.
package semaphore
