// Package leasing implements distributed leases: a name has one holder at a
// time, across processes and machines, for as long as the holder keeps
// renewing its lease. It runs on a backend you already have: see the modules under
// providers.
//
//	provider := memlease.New(memlease.Options{}) // or postgreslease.Open, ...
//	defer provider.Close()
//	manager, err := leasing.NewManager(provider, leasing.Options{})
//	...
//	defer manager.Close(ctx)
//	err = manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
//		return runMaintenance(ctx, lease.Token())
//	})
//
// [Manager.Do] waits for the name, and [Manager.TryDo] makes a single attempt. A lease that
// outlives one function comes from [Manager.Acquire] or [Manager.TryAcquire], and ends with
// [Lease.Release]. [Manager.With] sets options of the lease, such as its TTL. Applications
// import this package only; package abstractions is for providers, and for applications that
// implement a manager of their own, such as a wrapper: see [ManagerOf]. docs/api.md in the
// repository lists what is stable from 1.0 on.
//
// # Not promised
//
// A lease alone cannot stop a paused process from writing late. A process may
// pause at any instruction (garbage collection, a full disk, a suspended
// virtual machine), miss the end of its lease, and carry on with the next write
// before it can notice. Only the protected resource can refuse that write, by
// comparing fencing tokens: each holder's Lease.Token is greater than all
// earlier ones. Package fencing implements these checks. Work needs no fencing
// if doing it twice, on rare occasions, is harmless. (See the diagram in
// Kleppmann, "How to do distributed locking", 2016.)
//
// # Promises
//
// These promises hold on every provider, and package providertest checks them there:
//
//  1. A name has at most one live grant, as the backend's writes decide.
//     Expiry is by the backend's clock. Some providers also free a lease by
//     the monotonic clock of a contender that has watched the lease for its
//     TTL: see Capabilities.Clock. No client's wall clock is involved.
//  2. A holder stops trusting its lease before the backend may give it to
//     another. When trust ends, a timer cancels the lease's context with a
//     *LostError as its cause; no request in flight delays that timer.
//  3. The fencing token of a name rises with every change of ownership: across
//     releases, expiries, breaks, restarts of processes and servers, and the
//     removal of idle names.
//  4. An acquire, renewal or release whose reply was lost can be tried again
//     safely: a retry never holds the name twice, blocks itself, revives a
//     released lease, or reports a loss that did not happen.
//  5. Nothing hangs: each call obeys its context, and has its own time limit
//     where the context has no deadline.
//
// This assumes that the backend loses no acknowledged write and that clocks run
// at about the same rate (see Tuning.DriftFactor). Each provider documents what
// happens if its backend falls short. Promise 2 has three exceptions: an
// operator's immediate Break, a Break of an infinite lease whose holder does
// not reach the backend within BreakOptions.Grace, and an Adopt while the
// former holder is still alive.
//
// # Trust
//
// A lease is trusted until
//
//	sent + TTL - (DriftFactor x TTL + DriftFloor)
//
// where sent is the time just before the latest successful acquire or renewal
// was sent, not the time of its reply: the backend counts the TTL from some
// moment in between. The time is kept on two clocks: Go's monotonic clock and,
// on Linux, CLOCK_BOOTTIME, which keeps running while the machine is
// suspended. Whichever reaches the deadline first decides. With the defaults a
// lease of 30 s is trusted for 29.698 s.
//
// By default renewals are sent at 0.54 to 0.6 of the TTL, counted from sent. A
// failed renewal is retried until trust ends, after pauses of at most a tenth
// of the trust left, so more often towards the end. One attempt may take at most a third
// of the remaining trust, so that a hung attempt leaves time for others. A
// lease is lost only when the backend says for certain that the claim has
// ended, or when trust ends; a transient error does not end a lease.
//
// # The life of a lease
//
//	            Acquire                     Release
//	free ──────────────────► held ────────────────────────────────────► released
//	                          │  ▲                                        ▲
//	               renewal    │  │ renewal                                │
//	               fails      ▼  │ succeeds                               │
//	                         held, failing ───────────────────────────────┘
//	                          │
//	                          │ trust ends, or the backend says it has ended
//	                          ▼
//	                         lost (expired, taken, broken, gone, ...)
//
// The context of a lease ends when it is lost and when its release begins.
// Within Do, and during Close, the order is: cancel the work's context, let the
// work wind up while renewal goes on, then release. No other process gets the name
// before the work has stopped.
//
// A lease may also move: Lease.HandOver ends it in one process without releasing it,
// and Manager.Adopt continues it in another, under the same token. A process that
// stores the name, ID and token of its lease can adopt it after a restart. Adopt does
// not stop the former holder, which must have handed the lease over, or be dead.
// Lease.SetMetadata changes the metadata that others see while the lease is held.
//
// # Waiting
//
// Waiters for a name queue within their manager, first come, first served. Only
// the head of the queue sends requests: when the backend pushes a wake-up, when
// the holder's TTL is over, and in any case after a jittered pause. Leases are not
// reentrant: a second Acquire of a name by the manager that holds it is one more
// waiter, so a Do within a Do of the same name waits for itself.
//
// Unless the backend keeps a queue of waiters, a manager that takes one name again
// and again pauses from time to time, so that polling processes get their turn. The
// pause is a quarter of the average time for which it held the name, between
// MinPoll and MaxPoll. While no other process is seen to want the name, pauses take
// about 1 % of the time.
//
// # Names
//
// Names are UTF-8 of up to 512 bytes without control characters. Metrics carry only
// the part before the first slash, so component/purpose[/key] is a good form;
// Options.Scope can choose another value.
//
// # Observing
//
// Options takes OpenTelemetry providers and a slog logger. The metrics, with times in seconds, are
// leasing.acquire.duration, .success, .failure and .attempt.failure (requests of waiters that the backend did not
// answer); leasing.renewal.duration, .success, .failure and .margin (trust left when a renewal came back: alert on
// it); leasing.lost; leasing.broken; leasing.release.duration; leasing.active.count; leasing.waiters and
// leasing.waiters.oldest (an age); leasing.held.duration; leasing.backend.up (0 if the latest request was not
// answered, else 1); leasing.cleanups (claims without a holder that are not yet released);
// leasing.observer.panics. Their attributes are leasing.provider, leasing.scope, and error.type or
// leasing.lost.reason. Spans: leasing.acquire, leasing.adopt, leasing.renew, leasing.release, leasing.break,
// leasing.lost. Their attributes leasing.attempts and leasing.lost.reason count requests and say why a lease was
// lost. The span of a wait has a link to the acquire of each lease that was in its way, including those of other
// processes: see Options.TracerProvider. Losses, breaks and failures are logged as warnings; a repeated failure is
// logged once at first, and then with a count. Manager.Subscribe delivers events; [HealthHandler] serves a health
// report.
//
// # Testing
//
// Package abstractions/leasingtest has a fake manager for unit tests, and real managers over a provider that a test
// scripts. Package chaos wraps any provider and injects faults.
//
// # Writing a provider
//
// Package abstractions is the contract, and package abstractions/providertest
// checks it sentence by sentence.
package leasing
