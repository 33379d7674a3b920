// Package semaphore lets at most N holders work at a time, across processes and
// machines: to keep the calls to an external API under its limit, say.
//
//	payments, err := semaphore.New(manager, semaphore.Options{Name: "external/payments", Permits: 10})
//	...
//	err = payments.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
//		return gateway.Charge(ctx, request) // ctx ends before another holder can get the permit
//	})
//
// # How it works
//
// A semaphore of N permits is N leases, its slots: external/payments/slot/0 to
// external/payments/slot/9. A Permit is the lease of one slot, and is renewed
// and lost as any lease is: when its context ends, so does the right to work.
// The permit of a holder that crashes is free when the lease's TTL has passed.
//
// At most N permits are trusted at any moment, as the backend decides. A permit
// promises no more than a lease does: a paused process is not stopped, and may
// work beside N others when it wakes up.
//
// # Fencing
//
// Each slot has fencing tokens of its own, which rise from one holder of that
// slot to the next. The tokens of two slots are unrelated. So a resource can't
// compare the tokens of all holders, but it can refuse the former holders of each
// slot. Pass it Permit.Name, the slot's name, and Permit.Token. It remembers the
// highest token for each name, as sqlfence.Table does, and admits the latest
// holder of each slot that it knows of: N at most.
//
// # Waiting
//
// The waiters of one Semaphore are served in the order in which they came.
// They share one search for a free slot, so a hundred of them cost the backend
// as much as one. Make one Semaphore for a name and process, and share it.
//
// An Acquire asks for slots that this process does not hold, in an order of
// the process's own, until it gets one. If a share f of them is free that takes
// about 1/f requests. After 8 in vain it waits. While anybody in the process
// waits, the process sends:
//
//   - for each of 4 slots, as many requests as one Manager.Acquire that waits.
//     Where the provider pushes wake-ups that is one when the slot is released and
//     one in 4 s, otherwise 4 in 3 s. Every minute or two another slot is waited
//     for instead.
//   - 8 requests in 3 s for other slots. With more than 120 permits they are as
//     many as it takes to ask for each slot once in a minute: 22 a second with
//     1000 permits.
//
// In the metrics of package leasing, each slot that was asked for in vain is a
// failed acquire.
//
// A slot released in this process goes to its first waiter, with one request and
// no search. After 15 s of such hand-overs in a row a slot is left alone for a
// second, so that other processes get their turn. Between processes no order is
// promised, but every slot is asked for within a minute or so, so none is passed
// over for good.
//
// # Changing the number of permits
//
// Slots have numbers and nothing else. While processes disagree about Permits, in
// the middle of a rollout, those with the larger number use all slots that the
// others use, and some more. The largest number applies until the last process
// that has it has ended, and is never exceeded. From then on the smaller one applies.
package semaphore
