// Package semaphore lets at most N holders work at a time, across processes and
// machines. For example, it keeps calls to an external API under its limit.
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
// and lost like any lease: the holder must stop when its context ends. The
// permit of a holder that crashes becomes free when the lease's TTL has
// passed.
//
// At most N permits are trusted at any moment, since each slot has one holder. A permit promises no
// more than a lease does: a paused process is not stopped, and may work beside N others when it
// wakes up.
//
// # Fencing
//
// Each slot has fencing tokens of its own, which rise from one holder of that slot to the next. The
// tokens of two slots are unrelated. So a resource can't compare the tokens of all holders, but it
// can refuse the former holders of each slot. Pass it Permit.Name, the slot's name, and
// Permit.Token. Like sqlfence.Table, it remembers the highest token for each name. So it admits,
// for each slot, only the latest holder that it has seen: at most N holders.
//
// # Waiting
//
// The waiters of one Semaphore are served in order of arrival. They share one search for a free
// slot, so a hundred waiters cost the backend no more than a single waiter. Make one Semaphore per
// name and process, and share the instance.
//
// Acquire tries the slots that this process does not hold, in an order specific
// to the process, until it acquires one of these. If a fraction f of the slots
// is free, that takes about 1/f requests. After 8 failures it waits. While
// there are waiters, the process sends:
//
//   - for each of 4 slots, as many requests as a waiting Manager.Acquire: if the
//     provider pushes wake-ups, one when the slot is released and one per 4 s,
//     otherwise 4 per 3 s. Every minute or two it waits for a different slot
//     instead.
//   - 8 requests per 3 s for other slots. With more than 120 permits it sends
//     enough to try each slot once a minute: 22 per second with 1000 permits.
//
// In the metrics of package leasing, each failed try of a slot counts as a
// failed acquire.
//
// A slot released in this process goes to the process's first waiter, with one
// request and no search. After 15 s of such reuse the process does not request
// the slot for 1 s, so that other processes get a turn. No order is promised
// between processes, but each process tries every slot about once a minute, so
// no free slot is overlooked for good.
//
// # Changing the number of permits
//
// Slots differ only in their numbers. While processes disagree about Permits, for example during a
// rollout, those with the larger number use the same slots as the others, and more. The largest
// number is the limit until the last process with that number has ended. From then on the smaller
// number is the limit.
package semaphore
