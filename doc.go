// Package leasing gives a name to one holder at a time, across processes and
// machines, for as long as the holder keeps renewing it. It runs over a
// backend you already have: see the modules under providers.
//
//	provider := memlease.New(memlease.Options{}) // or sqllease.Open, ...
//	defer provider.Close()
//	manager, err := leasing.NewManager(provider, leasing.Options{})
//	...
//	defer manager.Close(ctx)
//	err = leasing.Do(ctx, manager, "jobs/daily-maintenance", func(ctx context.Context, lease leasing.Lease) error {
//		return runMaintenance(ctx, lease.Token())
//	})
//
// [Do] waits for the name, [TryDo] asks once. A lease that outlives one function
// comes from Manager.Acquire or Manager.TryAcquire and ends with Lease.Release. The
// methods of [Manager] and [Lease] are documented in package abstractions, where
// providers find them too; applications import this package alone. docs/api.md in
// the repository lists what stays as it is from 1.0 on.
//
// # What is not promised
//
// A lease alone cannot stop a paused process from writing late. A process may
// stop at any instruction (garbage collection, a full disk, a suspended virtual
// machine), sleep through its lease, and go on with the next write before
// anything can tell it. Only the protected resource can refuse that write, by
// comparing fencing tokens: each holder's Lease.Token is greater than all
// before it. Package fencing has such checks. What needs no fence is work that
// does no harm when, rarely, it is done twice.
// (Kleppmann, "How to do distributed locking", 2016, has the picture.)
//
// # What is promised
//
// On every provider, and checked on every provider by package providertest:
//
//  1. At most one live grant per name, as the backend's own clock and writes
//     decide. No client's clock takes part.
//  2. A holder stops trusting its lease before the backend may give it to
//     another. When trust ends, the lease's context is cancelled by a timer
//     that waits behind no request, with a *LostError as its cause.
//  3. The fencing token of a name rises with every change of ownership: across
//     release, expiry, break, restarts of process and server, and the
//     forgetting of idle names.
//  4. An acquire, renewal or release whose reply was lost can be tried again
//     safely: it never ends up holding twice, blocking itself, reappearing
//     after its release, or reporting a loss that did not happen.
//  5. Nothing hangs: each call obeys its context, and has a bound of its own
//     where the context has none.
//
// This assumes that the backend loses no acknowledged write and that clocks
// run at about the same rate (see Options.DriftFactor). Each provider says
// what happens where its backend falls short. An operator's immediate Break is
// the stated exception to 2; so are a Break of an infinite lease whose holder
// does not reach the backend within BreakOptions.Grace, and an Adopt beside a
// holder that is still alive.
//
// # Trust
//
// A lease is trusted until
//
//	sent + TTL - (DriftFactor x TTL + DriftFloor)
//
// where sent is read before the latest successful acquire or renewal went out,
// not when its answer came: the backend counts the TTL from some moment in
// between. The time is kept on two clocks: Go's monotonic clock and, on Linux,
// CLOCK_BOOTTIME, which runs on while the machine is suspended. The one that
// gets there first decides. With the defaults a lease of 30 s is trusted for
// 29.698 s.
//
// Renewals are sent at 0.6 of the TTL, counted from sent. One that fails is
// tried again, ever more densely, until trust ends; one attempt gets at most a
// third of the trust left, so that a hung one leaves time for others. Only the
// backend's certain word that the claim has ended, or the end of trust, ends a
// lease: an error that may pass does not.
//
// # The life of a lease
//
//	            Acquire                     Release: told the backend
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
// work wind up while renewal goes on, then release. Nobody else gets in
// before the work has stopped.
//
// A lease may also move: Lease.HandOver ends it in one process without releasing it,
// and Manager.Adopt goes on with it in another, under the same token. A process that
// stores name, ID and token of its lease can adopt it after a restart. Adoption stops
// nobody: whoever had the lease before must have handed it over, or be gone.
// Lease.SetMetadata changes what others see of a lease while it is held.
//
// # Waiting
//
// Those who wait for a name in one manager queue, first come, first served,
// and only the head of the queue asks the backend: when the backend pushes a
// hint, when the holder's time is up, and after a jittered pause in any case.
// A second Acquire of a name in the process that holds it is one more waiter: a Do
// within a Do of the same name waits for itself.
//
// Unless the backend keeps a queue of waiters, a manager that takes one name again
// and again leaves it alone for a moment from time to time, so that processes
// that poll get in: a quarter of a lease's time, between MinPoll and MaxPoll. While
// nobody else is seen to want the name that is about 1 % of the time.
//
// # Names
//
// Names are UTF-8 of up to 512 bytes without control characters. Metrics carry what is
// before the first slash alone, so component/purpose[/key] is a good form;
// Options.Scope has another choice.
//
// # Observing
//
// Options takes OpenTelemetry providers and a slog logger. Metrics, in seconds
// where they are times: leasing.acquire.duration, .success, .failure and
// .attempt.failure (requests of waiters that the backend did not answer);
// leasing.renewal.duration, .success, .failure and .margin (trust left when a
// renewal came back: alert on it); leasing.lost; leasing.broken;
// leasing.release.duration; leasing.active.count; leasing.waiters and
// leasing.waiters.oldest (an age); leasing.held.duration; leasing.backend.up (1, or 0
// since a request was not answered); leasing.cleanups (claims that are still to be
// given up); leasing.observer.panics. Their attributes are leasing.provider,
// leasing.scope, and error.type or leasing.lost.reason. Spans: leasing.acquire,
// leasing.adopt, leasing.renew, leasing.release, leasing.break. The log has losses,
// breaks and failures as warnings; a failure that repeats is logged at once and then
// with a count.
// Manager.Subscribe tells events; [HealthHandler] serves a report.
//
// # Writing a provider
//
// Package abstractions is the contract, and package abstractions/providertest
// checks it sentence by sentence.
package leasing
