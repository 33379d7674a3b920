// Package chaos injects the faults of backends and networks into a provider, so that a test shows
// whether code that holds leases survives such faults.
//
//	faulty, err := chaos.Wrap(provider, chaos.LostReplies(chaos.LostRepliesOptions{Seed: 7}), chaos.Options{})
//	manager, err := leasing.NewManager(faulty, leasing.Options{})
//	// ... the work under test ...
//	fmt.Println(faulty.Report())
//
// A [Plan] is written in Go or JSON. The ready-made plans are [FlakyNetwork], [SlowBackend], [LostReplies],
// [Partition], [StealLease], [ThrottledAccount], [TotalOutage] and [GrayFailure]. Over the memory provider,
// in a testing/synctest bubble, an hour of faults takes a moment: create the provider and the wrapper
// inside the bubble. Copy TestMyWorkerSurvives from example_test.go as a starting point.
//
// # What the faults mean
//
//	kind                in production                                       what must hold
//	FaultDelay          a slow server, a long route, a paused client        trust ends on time; a late reply leaves less trust
//	FaultError          503 from a proxy; credentials that have expired     retries go on; a refusal may be temporary
//	FaultThrottle       429 or 503 of an account over its limit             no retry before RetryAfter; no lease is lost
//	FaultHang           a server that accepts requests and does not answer  the caller's context ends the call; trust ends even if the call hangs
//	FaultRequestLost    a connection reset before the request arrived       the attempt is repeated
//	FaultReplyLost      a connection reset, a failover, after the effect    the retry is recognised, and no lease is lost by mistake
//	FaultDeliveredLate  a packet or a proxy's retry that arrives late       it does not undo what happened since
//	FaultAppliedTwice   a client library that retries by itself             twice has the effect of once
//	FaultStaleRead      a replica that lags, a cache                        no decision relies on Inspect or List
//	FaultBroken         an operator who breaks a lease                      the holder notices; its late writes are refused by token
//	FaultPartitioned    a network partition                                 holders that are cut off lose their leases in time, others continue
//	FaultWakeupsLost    a push connection that died silently                waiters poll too
//	FaultCustom         what you have seen in production: see CustomFault   what you promise
//
// # What still holds
//
// Under any plan the wrapper keeps the contract of [leasing.Provider], with two exceptions: a
// [FaultStaleRead] returns an old record, and [FaultBroken] without RunOut is an operator's immediate
// Break, the documented exception to mutual exclusion. A [CustomFault] can break the contract in one
// way: its error may falsely say that a lease is held or lost. An error that promises that nothing was
// applied (throttled, denied, not set up) is injected only if nothing was applied. Invalid requests are
// refused as invalid. All injected errors match [ErrInjected].
//
// Faults also happen to the optional abilities of the wrapped provider
// (abstractions.As), and to the renewals and clean-ups that a Manager sends by
// itself. The plan decides about each item of a batch of renewals separately.
//
// # Attempts
//
// Operations with the same verb, name and claim ID are attempts of one request. Without an ID,
// as in Inspect or Ping, the owner takes its place. The first attempt has the number 1, and
// each failure that the caller sees adds 1, injected or not. An answer ends the request. It is
// a success, or an error that matches leasing.ErrHeld, ErrLost, ErrReleased, ErrStale,
// ErrInvalid, ErrUnsupported or ErrClosed. After an answer the next attempt has the number 1. A
// Manager keeps the ID while it repeats a request, and uses a new ID for each lease. If a batch
// of renewals fails as a whole, so do its items. Match.MinAttempt, Match.MaxAttempt and
// Match.OnlyOnRetry select by this number.
//
// # Repeatable runs
//
// Each random choice is a function of the seed, the rule's name, and the operation: its verb, name
// and owner, and its number among the operations with the same three. It does not depend on how
// goroutines interleave, as long as each owner's requests for one name come in order. So the same
// seed and plan inject the same faults into the same operations. Limits that count over several
// names or owners (Policy.First without PerName, Budget, Rate) depend on the order of the
// operations, and windows depend on time. In a bubble both are repeatable if the test has a fixed
// order. A Manager adds its own jitter to the times of renewals, but what happens to the n-th
// renewal stays the same. [Provider.Reset] repeats a run with one wrapper.
//
// A [CustomFault] and a [CustomPolicy] get a source of random numbers that depends on the same
// things: see Operation.Rand.
//
// To count operations and to look up owners, the wrapper remembers the latest 65,536 names,
// claims and reads. For older ones, counting restarts at zero.
//
// With an empty plan, or while disabled, the wrapper adds some tens of nanoseconds and no
// allocation per request.
package chaos
