package leasing

import (
	"context"
	"iter"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/engine"
)

// Manager acquires leases from a provider, renews them, notices their loss, queues
// waiters, and notifies observers. NewManager makes a Manager. It is safe for concurrent use.
//
// A Manager calls an implementation of [abstractions.Manager]. NewManager provides one, and
// [ManagerOf] accepts an application's own: a wrapper, or a fake in a test.
type Manager struct{ impl abstractions.Manager }

// NewManager returns a manager of the provider's leases. It sends nothing. It
// starts one goroutine, and on Linux a second one that waits for a resume from
// suspend. Close the manager when done, and the provider after the manager.
//
// If an option is invalid, the error is an *InvalidError that names the option.
func NewManager(provider Provider, options Options) (*Manager, error) {
	if provider == nil {
		return nil, &Error{Op: "new manager", Err: &InvalidError{Field: "provider", Value: nil, Want: "a provider; nil can't hold leases"}}
	}
	caps := provider.Capabilities()
	options, settings, err := options.withDefaults(caps)
	if err != nil {
		return nil, &Error{Op: "new manager", Provider: caps.Provider, Err: err}
	}
	return ManagerOf(engine.New(provider, caps, options.config(caps, settings))), nil
}

// ManagerOf returns a Manager whose methods are those of implementation. Every method, every Do and every recipe calls only
// implementation:
//
//	type logged struct{ abstractions.Manager }
//
//	func (l logged) TryAcquire(ctx context.Context, name string, options leasing.AcquireOptions) (abstractions.Lease, error) {
//		lease, err := l.Manager.TryAcquire(ctx, name, options)
//		if err != nil {
//			return nil, err
//		}
//		return loggedLease{lease}, nil
//	}
//
//	type loggedLease struct{ abstractions.Lease }
//
//	func (l loggedLease) Release(ctx context.Context) error {
//		log.Println("release", l.Name())
//		return l.Lease.Release(ctx)
//	}
//
//	manager = leasing.ManagerOf(logged{manager.Interface()})
//
// ManagerOf panics if implementation is nil.
func ManagerOf(implementation abstractions.Manager) *Manager {
	if implementation == nil {
		panic("leasing: ManagerOf(nil)")
	}
	return &Manager{implementation}
}

// Interface returns the implementation behind m, for a wrapper: see ManagerOf. The implementation keeps the options
// of m's With as defaults. The methods of a wrapper get only the options of a With on the wrapper's own Manager.
func (m *Manager) Interface() abstractions.Manager { return m.impl }

// With returns a manager whose Acquire, TryAcquire, Do and TryDo use these options. For a field that is zero, the option
// of m applies. The manager that With returns is m in every other respect. It does not have to be closed.
//
//	lease, err := manager.With(leasing.AcquireOptions{TTL: time.Minute}).Acquire(ctx, "migrations")
func (m *Manager) With(options AcquireOptions) *Manager {
	if base, ok := m.impl.(withOptions); ok {
		return &Manager{withOptions{base.Manager, options.Over(base.options)}}
	}
	return &Manager{withOptions{m.impl, options}}
}

// AcquireOptions returns the options of With.
func (m *Manager) AcquireOptions() AcquireOptions {
	base, _ := m.impl.(withOptions)
	return base.options
}

type withOptions struct {
	abstractions.Manager
	options AcquireOptions
}

func (w withOptions) Acquire(ctx context.Context, name string, options AcquireOptions) (abstractions.Lease, error) {
	return w.Manager.Acquire(ctx, name, options.Over(w.options))
}

func (w withOptions) TryAcquire(ctx context.Context, name string, options AcquireOptions) (abstractions.Lease, error) {
	return w.Manager.TryAcquire(ctx, name, options.Over(w.options))
}

// Acquire waits until it has the name, ctx ends, or AcquireOptions.WaitLimit has
// passed. The waiters of one manager are served in order of arrival.
//
// If ctx ends the wait, the error matches the cause of ctx
// (context.Canceled, say) and also the obstacle: ErrHeld, with a
// *HeldError that describes the holder, or the backend's last error. If
// the wait limit ends it, the error matches the obstacle only. Transient
// failures of the backend do not end the wait. ErrInvalid, ErrNotSetUp,
// ErrReleased, ErrUnsupported and ErrClosed end the wait. ErrDenied ends the
// wait once it has been the only answer for Options.RefusalTimeout.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lease, error) {
	return wrapLease(m.impl.Acquire(ctx, name, AcquireOptions{}))
}

// TryAcquire makes one attempt and does not wait. The error matches ErrHeld if the name is not free. If it matches
// ErrUnavailable the name may have been acquired nevertheless: the manager then releases it in the background. The next
// TryAcquire of the name first waits for the answer to that release, for at most Tuning.RequestTimeout.
//
// TryAcquire does not queue behind this manager's waiters, and may overtake
// waiters. A backend that keeps a queue of waiters may refuse the request in favour of
// the head of that queue.
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lease, error) {
	return wrapLease(m.impl.TryAcquire(ctx, name, AcquireOptions{}))
}

// Adopt continues another process's lease, under its ID and token. The other
// process has called Lease.HandOver, or has stored ID and token and crashed. Adopt
// sends one renewal and counts trust from just before the renewal. It does not wait.
//
// The error matches ErrLost if the lease has ended already. After any other error
// the lease may have been renewed although no process holds it: adopt it again, with the
// same TTL or a shorter one, or let it run out.
//
// Adopt does not stop the former holder, or another process that has adopted the lease: give a Handover to one process only.
// After HandOver no process trusts the lease any more. In every other case make sure that the former holder is dead. While it
// lives, both processes trust the lease under one token, so that no fence can distinguish the processes. If the adopter's TTL is
// the shorter one, a third process may even get the name while the former holder still trusts its lease.
//
// Use a TTL no longer than the former holder's shortest TTL. A delayed renewal of the former
// holder, or of an Adopt that failed, restarts its own, shorter TTL on arrival, and would cut a
// longer TTL short.
func (m *Manager) Adopt(ctx context.Context, handover Handover, options AdoptOptions) (*Lease, error) {
	return wrapLease(m.impl.Adopt(ctx, handover, options))
}

// Inspect reads the backend's record of a name.
func (m *Manager) Inspect(ctx context.Context, name string) (Record, error) {
	return m.impl.Inspect(ctx, name)
}

// Waiters returns the backend's queue for a name, in the order in which it is served. Each manager
// is in that queue at most once per name, with its head waiter; its other waiters queue inside the
// process and are not listed. A head waiter that waits for a lease of its own manager joins the
// backend's queue only after up to Tuning.MaxPoll. The error matches ErrUnsupported if the provider
// is not a WaiterLister.
func (m *Manager) Waiters(ctx context.Context, name string) ([]Waiting, error) {
	return m.impl.Waiters(ctx, name)
}

// List iterates over the records whose names begin with options.Prefix. It reads page by page as
// the loop goes on, and ends at the first error, which matches ErrUnsupported if the provider is
// not a Lister. On Redis a name may appear twice, and on a Cluster whose slots are being moved a
// name may be missing.
func (m *Manager) List(ctx context.Context, options ListOptions) iter.Seq2[Record, error] {
	return m.impl.List(ctx, options)
}

// History iterates over the changes of a name, the oldest first unless
// options.NewestFirst is set. It reads page by page as the loop goes on, and ends at the first
// error, which matches ErrUnsupported if the provider keeps no history.
func (m *Manager) History(ctx context.Context, name string, options HistoryOptions) iter.Seq2[HistoryEntry, error] {
	return m.impl.History(ctx, name, options)
}

// Break ends the lease of a name, whichever process is the holder. The backend refuses further renewals, and the name is free
// when the lease has run out. With BreakOptions.Immediate the name is free at once: set that option only if you know that
// the holder is dead.
func (m *Manager) Break(ctx context.Context, name string, options BreakOptions) (BreakResult, error) {
	return m.impl.Break(ctx, name, options)
}

// Subscribe calls observer for the events of all leases of the manager
// until the returned function is called. See Observer.
func (m *Manager) Subscribe(observer Observer) (unsubscribe func()) {
	return m.impl.Subscribe(observer)
}

// Health pings the backend, for at most Tuning.HealthTimeout, and reports on it and on the leases
// held. It acquires no lease.
func (m *Manager) Health(ctx context.Context) Health { return m.impl.Health(ctx) }

// Capabilities returns the provider's capabilities.
func (m *Manager) Capabilities() Capabilities { return m.impl.Capabilities() }

// Close ends the manager. It refuses new work, ends waits with ErrClosed, and cancels the context
// of every lease, with ErrClosed as its cause. Then Close waits, while renewals go on, for each
// Do to return and each other holder to call Release.
//
// If ctx ends first, a *CloseError names the leases still in use. They are no longer renewed and run out; if they were released,
// another process could acquire the names while the holders still work. An infinite lease stays held until its holder releases
// the lease. If ctx has no deadline, Close does the same after a while: the longest trust that was left when it began (an
// infinite lease counts as the manager's TTL), or twice Tuning.RequestTimeout if that is longer. Give ctx a deadline if work
// takes longer to wind up.
//
// After two seconds, and from time to time after that,
// Close logs a warning that names the leases and releases under way. It waits at most
// Tuning.RequestTimeout for releases that the backend does not answer, and
// then counts them in a *CloseError. It does not close the provider. Close
// may be called again, and from several goroutines. Later calls wait for the
// first, or until their own ctx ends; the ctx of the first decides when to
// give up.
func (m *Manager) Close(ctx context.Context) error { return m.impl.Close(ctx) }

// Lease is one holding of a name, from its acquire to its release or loss. It is safe
// for concurrent use.
//
// Keep a reference to it while it is held: a lease that is collected as garbage is renewed until
// its manager is closed, and the manager logs a warning.
type Lease struct{ impl abstractions.Lease }

// LeaseOf returns a Lease whose methods are those of implementation. A Manager calls it on the leases of its
// implementation; other programs need it for functions that take a *Lease. LeaseOf panics if implementation is nil. A
// *Lease implements abstractions.Lease itself.
func LeaseOf(implementation abstractions.Lease) *Lease {
	if implementation == nil {
		panic("leasing: LeaseOf(nil)")
	}
	if l, ok := implementation.(*Lease); ok {
		return l
	}
	return &Lease{implementation}
}

func wrapLease(l abstractions.Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	return LeaseOf(l), nil
}

// Name returns the name of the lease.
func (l *Lease) Name() string { return l.impl.Name() }

// ID returns the ID of this claim. It is a key to the lease: see Fingerprint.
func (l *Lease) ID() string { return l.impl.ID() }

// Owner returns the Options.Owner of the manager.
func (l *Lease) Owner() string { return l.impl.Owner() }

// Token returns the fencing token. Pass it to the resource that the lease protects, which must
// refuse smaller tokens: see package fencing.
func (l *Lease) Token() int64 { return l.impl.Token() }

// TTL returns the TTL as granted. An infinite lease begins with the manager's
// TTL and becomes Infinite with its first renewal, which is sent at once.
func (l *Lease) TTL() time.Duration { return l.impl.TTL() }

// AcquiredAt returns when the acquire, or Adopt, was sent, by this process's clock.
func (l *Lease) AcquiredAt() time.Time { return l.impl.AcquiredAt() }

// Remaining returns how long the lease can be trusted without a further
// renewal: 0 once it has ended, Infinite for an infinite lease.
func (l *Lease) Remaining() time.Duration { return l.impl.Remaining() }

// Renewals returns the number of successful renewals.
func (l *Lease) Renewals() int { return l.impl.Renewals() }

// Metadata returns the metadata that the backend confirmed last: see SetMetadata.
func (l *Lease) Metadata() map[string]string { return l.impl.Metadata() }

// Context returns a context that ends when the lease does, or when its release begins. Pass it to the work under the lease, which
// must stop when the context ends. Its cause is Err. It keeps the values of the context that acquired the lease, but not its
// cancellation or deadline.
func (l *Lease) Context() context.Context { return l.impl.Context() }

// Done returns Context().Done().
func (l *Lease) Done() <-chan struct{} { return l.impl.Context().Done() }

// Err returns nil while the lease is held. Afterwards it says how the lease ended. The error
// matches exactly one of these:
//
//	ErrReleased    Release was called
//	ErrHandedOver  HandOver was called
//	ErrClosed      Manager.Close was called
//	ErrLost        the lease ended by itself: the error is a *LostError, whose Reason says how
//
// Err reads the clocks, so it is right even at the
// moment at which a paused process resumes, when Context may not have
// been cancelled yet.
func (l *Lease) Err() error { return l.impl.Err() }

// Renew renews now, or joins the renewal under way. A failure that leaves
// the lease held is returned and, with auto-renewal, retried by the manager.
// If ctx ends first, Renew returns and the attempt continues in the
// background.
func (l *Lease) Renew(ctx context.Context) error { return l.impl.Renew(ctx) }

// SetMetadata replaces the lease's metadata by a renewal that is sent now; nil clears the metadata.
// Others see the new metadata once the renewal has succeeded. SetMetadata counts as a renewal. If
// it fails while the lease stays held, the next renewals carry the new metadata until one succeeds
// or the backend refuses the metadata for good. Metadata returns the old metadata until a renewal
// with the new metadata has succeeded. If there are several calls, the last one counts.
func (l *Lease) SetMetadata(ctx context.Context, metadata map[string]string) error {
	return l.impl.SetMetadata(ctx, metadata)
}

// SetTTL changes the TTL of the lease by a renewal that is sent now. Renewals keep their share of the TTL: with the
// default RenewFraction they are sent at 0.6 of the new TTL. SetTTL counts as a renewal. If it fails, the lease is
// still held unless the error matches ErrLost, and the next renewals ask for the new TTL. If there are several
// calls, the last one counts.
//
// A TTL beyond the backend's bounds is treated as in an acquire. Infinite is refused, and so is every TTL
// for an infinite lease.
//
// From the moment at which a renewal with a shorter TTL is sent, the lease is trusted for no longer than that TTL. If
// a renewal gets no answer it may arrive late and restart its own TTL. So the lease is trusted for no longer than
// the shortest TTL of all such renewals, although it is renewed with the new TTL.
func (l *Lease) SetTTL(ctx context.Context, ttl time.Duration) error { return l.impl.SetTTL(ctx, ttl) }

// Release frees the name, or leaves it taken as AcquireOptions.AtLeast says. Call it when the work is over, not before: others
// may get the name from then on. It cancels Context, stops renewing and sends the release on a context of its own, so that it
// works even if ctx has ended. Once ctx has ended, Release waits one more second for the answer and then continues in the
// background. It retries for as long as the backend may still show the lease as held. If the backend refuses the release with
// ErrDenied, Release returns that error, and the manager retries in the background until the TTL has passed or the manager is
// closed. For an infinite lease it retries until the manager is closed.
//
// Releasing again returns the result of the first release. Releasing a
// lost lease returns its *LostError: the work may have run unprotected.
// Inside Do it only cancels the context; Do releases when the function has
// returned.
func (l *Lease) Release(ctx context.Context) error { return l.impl.Release(ctx) }

// HandOver ends the lease in this process without releasing it, so that another process can
// continue it under the same token: see Manager.Adopt. Call it when the work is over, not before,
// as with Release. It renews first, which gives the other process a whole TTL to adopt the lease,
// unless MaxRenewals are used up. If the renewal fails, HandOver returns the error; the lease is
// still held unless the error matches ErrLost. After a renewal that succeeds it cancels Context,
// with ErrHandedOver as its cause.
//
// Once HandOver has returned a Handover, this process no longer
// trusts the lease and sends nothing more for the lease. A lease that no process adopts runs
// out; an infinite one stays until it is broken. Inside Do HandOver is refused
// with ErrInvalid, since the function has not returned.
func (l *Lease) HandOver(ctx context.Context) (Handover, error) { return l.impl.HandOver(ctx) }
