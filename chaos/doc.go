// Package chaos makes a provider fail the way backends and networks do, so that
// a test can tell whether code that holds leases survives it.
//
//	faulty, err := chaos.Wrap(provider, chaos.LostReplies(chaos.LostRepliesOptions{Seed: 7}), chaos.Options{})
//	manager, err := leasing.NewManager(faulty, leasing.Options{})
//	// ... the work under test ...
//	fmt.Println(faulty.Report())
//
// A [Plan] is Go or JSON. The ready-made ones are [FlakyNetwork],
// [SlowBackend], [LostReplies], [Partition], [StealLease], [ThrottledAccount],
// [TotalOutage] and [GrayFailure]. Over the memory provider, in a testing/synctest bubble, an
// hour of faults takes a moment: make both inside it. TestMyWorkerSurvives, among
// this package's examples, is a test to copy.
//
// # What the faults mean
//
//	kind                in production                                       what has to hold
//	FaultDelay          a slow server, a long way, a pause of the client    trust ends on time; a reply that is late grants less
//	FaultError          503 from a proxy; credentials that have expired     retries; a definite refusal is not one forever
//	FaultThrottle       429 or 503 of an account over its limit             nobody asks sooner than told; no lease is lost
//	FaultHang           a server that takes requests and stays silent       the caller's context ends it, and trust ends without it
//	FaultRequestLost    a connection that was reset before it got there     the attempt is repeated
//	FaultReplyLost      a connection reset, a failover, after the effect    the repetition is recognised: no ghost, no false loss
//	FaultDeliveredLate  a packet or a proxy's retry that comes much later   it does not undo what happened since
//	FaultAppliedTwice   a client library that retries by itself             once is as good as twice
//	FaultStaleRead      a replica that lags, a cache                        nobody decides by Inspect or List
//	FaultBroken         an operator who breaks a lease                      the holder hears of it; its late writes are refused by token
//	FaultPartitioned    a network that falls in two                         those cut off lose in time, the others go on
//	FaultHintsLost      a push connection that died without a word          waiters poll too
//
// # What is still true
//
// Under any plan the wrapper keeps the contract of [leasing.Provider], with two
// exceptions: a [FaultStaleRead] is not the current record, and [FaultBroken] without
// RunOut is an operator's immediate Break, the stated exception to mutual
// exclusion. An error that promises that nothing was applied (throttled, denied,
// not set up) is injected only where nothing was, and a request that can't work
// is refused as such. All injected errors match [ErrInjected].
//
// The optional abilities that the wrapped provider has are faulted like the
// rest, one by one (abstractions.As). So are the renewals and clean-ups that a
// Manager makes by itself: to the wrapper they are requests like others. In a
// batch of renewals each item meets its own fate.
//
// # Runs that repeat themselves
//
// Chance is a function of the seed, the rule's name, and the operation: which
// verb, name and owner, and how many of these there were. It does not depend on how
// goroutines interleave, as long as each owner's requests for one name come in
// order. So the same seed and plan give the same faults to the same operations.
// What counts over several names or owners (Policy.First without PerName,
// Budget, Rate) takes operations in the order in which they come, and windows go
// by time: in a bubble these repeat too where the test's own order does. A
// Manager adds jitter of its own to the times of renewals; the fate of the n-th
// renewal stays the same.
//
// The wrapper keeps the latest 65,536 names, claims and reads in mind, to count
// and to know owners. What has not been used for longer is begun anew.
//
// Without a plan, or disabled, it adds some tens of nanoseconds and no allocation.
package chaos
