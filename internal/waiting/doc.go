// Package waiting implements the wait for one name in one process: the queue of waiters, and the steps of the first waiter, the
// head. Only the head asks the backend. The methods of Queue and Head are the inputs. A Queue returns the waiter to be woken, and
// a Head its next Step. The package has no lock, goroutine, context, clock or channel: the engine serializes the inputs of each
// Queue, wakes and waits, and passes instants and random numbers. A wake-up for a waiter that does not listen yet is kept for
// that waiter. The engine never sends an input where a table has "-".
//
// A Queue has at most one head. Waiters become the head in order of arrival. A head asks once more after the end of a lease of
// ours, that is, of this process. A run is a sequence of such leases (see yieldState). The inputs of a Queue, and their effects:
//
//	input      no waiter           behind or at a head                      blocked
//	Join       the head            waits for its turn                       waits for its turn
//	Leave      -                   the next has its turn, or blocked        stays blocked
//	Settled    -                   -                                        the first has its turn
//	Ending     nothing             wakes the head where the backend queues  nothing
//	Ended      the run grows       the same; wakes the head, or later       the run grows
//	Wake       nothing             wakes the head                           nothing
//	Begin      -                   the head, and its first step             -
//	Answered   -                   whether the backend refuses for too long -
//
// A head that leaves while the outcome of a request is unknown blocks the queue until its clean-up is settled. Otherwise the next
// head would find our own abandoned claim as the holder, and pause until that claim expires. Ended does nothing while another
// lease of ours has the name. A head begins with a pause if the name is ours or while others get their turn, and subscribes first
// if others had the name a short while ago. The inputs of a Head, and its next step:
//
//	input                 in general                                        after LimitPassed
//	Subscribed            ask if registered, or at first; else pause        -
//	Answered: held        subscribe if it can; else pause                   stop
//	          throttled   pause as long as asked, and ignore wake-ups       stop
//	          no answer   pause                                             stop
//	          final       stop, as after refusals for too long              stop
//	Woken                 ask                                               -
//	LimitPassed           ask; stop if the last answer is fresh             -
//	Stopped               stop                                              stop
package waiting
