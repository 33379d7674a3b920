package abstractions

import (
	"context"
	"iter"
	"time"

	"github.com/distributedleasing/leasing/internal/sealed"
)

// Manager acquires leases from one provider, renews them, notices their loss,
// queues waiters, and notifies observers. leasing.NewManager makes one. It is
// safe for concurrent use. Only package leasing can implement the interface,
// so that it can grow; package leasingtest makes real managers for tests.
type Manager interface {
	// Acquire waits until it has the name, ctx ends, or options.WaitLimit has
	// passed. The waiters of one manager are served in order of arrival.
	//
	// If ctx ends the wait, the error matches the cause of ctx
	// (context.Canceled, say) and also the obstacle: ErrHeld, with a
	// *HeldError that describes the holder, or the backend's last error. If
	// the wait limit ends it, the error matches the obstacle only. Transient
	// failures of the backend do not end the wait. ErrInvalid, ErrNotSetUp,
	// ErrReleased, ErrUnsupported and ErrClosed end the wait. ErrDenied ends the
	// wait once it has been the only answer for Options.RefusalTimeout.
	Acquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error)

	// TryAcquire asks once and does not wait; options.WaitLimit must be 0.
	// It does not queue behind this manager's waiters, so it may overtake
	// them. A backend that keeps a queue of waiters may refuse it in favour of
	// the head of that queue.
	TryAcquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error)

	// Adopt continues another process's lease, under its ID and token. The other
	// process has called Lease.HandOver, or has stored ID and token and crashed. Adopt
	// sends one renewal and counts trust from just before it. It does not wait;
	// options.WaitLimit must be 0. If options.Metadata is nil the lease keeps its
	// metadata at the backend, but Lease.Metadata does not show it.
	//
	// The error matches ErrLost if the lease has ended meanwhile. After any other error
	// the lease may have been renewed although nobody holds it: adopt it again, with the
	// same TTL or a shorter one, or let it run out.
	//
	// Adopt does not stop the former holder, nor another process that has adopted the
	// lease: give a Handover to one. After HandOver no process trusts the lease any
	// more. In every other case make sure that the former holder is dead.
	// While it lives, both processes trust the lease under one token, so that no
	// fence can tell them apart. If the adopter's TTL is the shorter one, a third
	// process may even get the name while the former holder still trusts it.
	//
	// Adopt with a TTL no longer than the former holder's. A delayed renewal of the
	// former holder, or of an Adopt that failed, restarts its own, shorter TTL on
	// arrival, and would cut a longer one short.
	Adopt(ctx context.Context, handover Handover, options *AcquireOptions) (Lease, error)

	// Inspect returns the backend's record of a name without disturbing it.
	Inspect(ctx context.Context, name string) (Record, error)

	// Waiters returns the backend's queue for a name, in the order in which it is
	// served. Each manager is in that queue at most once per name, with its head
	// waiter; its other waiters queue inside the process and are not listed. A head
	// waiter that waits for a lease of its own manager joins the backend's queue only
	// after up to Options.MaxPoll. The error matches ErrUnsupported if the provider
	// is no WaiterLister.
	Waiters(ctx context.Context, name string) ([]Waiting, error)

	// Break ends the lease of a name, whoever holds it: see BreakRequest. Use
	// Immediate only if you know that the holder is dead.
	Break(ctx context.Context, name string, options *BreakOptions) (BreakResult, error)

	// List iterates over the records whose names begin with options.Prefix.
	// It reads page by page as the loop goes on, and ends at the first error,
	// which matches ErrUnsupported if the provider is no Lister. On Redis a name may
	// appear twice, and on a Cluster whose slots are being moved one may be missing.
	List(ctx context.Context, options *ListOptions) iter.Seq2[Record, error]

	// Subscribe calls observer for the events of all leases of the manager
	// until the returned function is called. See Observer.
	Subscribe(observer Observer) (unsubscribe func())

	// Health pings the backend, for at most Options.HealthTimeout, and reports on it
	// and on the leases held. It takes no lease.
	Health(ctx context.Context) Health

	// Capabilities returns the provider's capabilities.
	Capabilities() Capabilities

	// Close ends the manager: it refuses new work and ends waits with
	// ErrClosed, cancels the context of every lease (its cause matches
	// ErrReleased and ErrClosed), and waits, while renewals go on, for each
	// Do to return and each other holder to call Release. If ctx ends first, a
	// *CloseError names the leases still in use. They are no longer renewed and
	// run out; releasing them would let another process in beside their holders.
	// An infinite one stays held until its holder releases it. If ctx has no
	// deadline, Close does the same once the longest trust that was left when it
	// began has passed (an infinite lease counts as the manager's TTL), or twice
	// Options.RequestTimeout if that is longer. Give it a deadline if work takes
	// longer to wind up. After two seconds, and from time to time after that,
	// Close logs a warning that says what it waits for. It waits at most
	// Options.RequestTimeout for releases that the backend does not answer, and
	// then counts them in a *CloseError. It does not close the provider. Close
	// may be called again, and from several goroutines. Later calls wait for the
	// first, or until their own ctx ends; the ctx of the first decides when to
	// give up.
	Close(ctx context.Context) error

	sealed.ManagerInterface
}

// AcquireOptions configure one lease. Zero fields are taken from the Options
// of the manager.
type AcquireOptions struct {
	TTL           time.Duration // or Infinite
	RenewFraction float64
	RenewCadence  time.Duration
	NoAutoRenew   bool
	// MaxRenewals, unless 0, is how many times the lease may be renewed. Then
	// it runs out and is lost with LostRenewalLimit. It must be 0 for an
	// infinite lease.
	MaxRenewals int
	// WaitLimit, unless 0, is how long Acquire waits at most. It always asks
	// at least once, and its last request may take one second longer.
	// TryAcquire, TryDo and Adopt refuse it.
	WaitLimit time.Duration
	// AtLeast, unless 0, is the time for which the name stays taken, counted from
	// Lease.AcquiredAt. A Release before that time leaves the lease at the backend with
	// the rest of AtLeast as its TTL, and returns at once. A process that ends early
	// changes nothing, since the first TTL is AtLeast if TTL is shorter. A Break and a
	// HandOver end AtLeast. Where a renewal can't shorten a lease the name stays taken for
	// the TTL of the acquire. AtLeast is at most Capabilities.MaxTTL.
	AtLeast time.Duration
	// Metadata is stored with the lease, and shown to everyone who inspects the name:
	// at most MaxMetadataBytes.
	Metadata map[string]string
	// Observer is called with the events of this lease.
	Observer Observer
}

// BreakOptions are the optional parts of a Break: see BreakRequest.
type BreakOptions struct {
	// Actor and Reason say who breaks the lease and why, for people to read.
	// Actor's default is the manager's owner.
	Actor, Reason string
	IfToken       int64
	Immediate     bool
	// Grace is how long an infinite lease that is broken without Immediate
	// still runs. It must be longer than its holder's RenewCadence, after which
	// the holder learns of the break; otherwise two holders may trust the name.
	// It does not matter for other leases, and must be 0 with Immediate.
	// Default: twice the manager's TTL, at least a minute.
	Grace time.Duration
}

// ListOptions are the optional parts of a List.
type ListOptions struct {
	Prefix   string // "" lists all
	HeldOnly bool   // leave out names that are free
}

// Handover identifies a lease for Manager.Adopt. Lease.HandOver returns one. A
// process that wants to keep its lease through a crash stores one beforehand,
// made of the lease's Name, ID and Token. A process that has it can renew and
// release the lease, so keep it as a secret. It is whole in JSON, and printed without the
// ID.
type Handover struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Token int64  `json:"token"`
}

// Lease is one holding of a name, from its acquire to its release or loss. It is safe
// for concurrent use.
type Lease interface {
	Name() string
	// ID is the ID of this claim. It is a key: see Fingerprint.
	ID() string
	Owner() string // the manager's
	// Token is the fencing token. Pass it to the resource that the lease
	// protects, which must refuse smaller ones: see package fencing.
	Token() int64
	// TTL is the TTL as granted. An infinite lease begins with the manager's
	// TTL and becomes Infinite with its first renewal, which is sent at once.
	TTL() time.Duration
	// AcquiredAt is when the acquire, or Adopt, was sent, by this process's clock.
	AcquiredAt() time.Time
	// Remaining is how long the lease can be trusted without a further
	// renewal: 0 once it has ended, Infinite for an infinite lease.
	Remaining() time.Duration
	Renewals() int // successful ones
	// Metadata is the metadata that the backend confirmed last: see SetMetadata.
	Metadata() map[string]string

	// Context ends when the lease does, or when its release begins. Its cause
	// is Err. It keeps the values of the context that acquired the lease, but
	// not its cancellation or deadline.
	Context() context.Context
	// Done is Context().Done().
	Done() <-chan struct{}
	// Err is nil while the lease is held, then a *LostError, or an error that
	// matches ErrReleased. It reads the clocks, so it is right even at the
	// moment at which a paused process resumes, when Context may not have
	// been cancelled yet.
	Err() error

	// Renew renews now, or joins the renewal under way. A failure that leaves
	// the lease held is returned and, with auto-renewal, retried by the manager.
	// If ctx ends first, Renew returns and the attempt continues in the
	// background.
	Renew(ctx context.Context) error

	// SetMetadata replaces the lease's metadata by a renewal that is sent now; nil
	// clears it. Others see the new metadata once the renewal has succeeded. It
	// counts as a renewal. If it fails, the lease is still held and the backend has
	// not refused the metadata for good, then the next renewals carry the new
	// metadata until one succeeds. Metadata shows the old metadata until then. Of
	// several calls the last one counts.
	SetMetadata(ctx context.Context, metadata map[string]string) error

	// Release frees the name, or leaves it taken as AcquireOptions.AtLeast says. Call it when the work is over, not before:
	// others may get the name from then on. It cancels Context, stops
	// renewing and sends the release on a context of its own, so that it
	// works although ctx has ended. Once ctx has ended, Release waits one
	// more second for the answer and then continues in the background. It
	// retries for as long as the backend may still show the lease as held. If the
	// backend refuses the release with ErrDenied, Release returns that error, and the
	// manager retries in the background: until the TTL has passed or the manager is
	// closed, and for an infinite lease until it is closed.
	//
	// Releasing again returns the result of the first release. Releasing a
	// lost lease returns its *LostError: the work may have run unprotected.
	// Inside Do it only cancels the context; Do releases when the function has
	// returned.
	Release(ctx context.Context) error

	// HandOver ends the lease in this process without releasing it, so that another
	// process can continue it under the same token: see Manager.Adopt. Call it when
	// the work is over, not before, as with Release. It renews first, which gives the
	// other process a whole TTL to adopt the lease, unless MaxRenewals are used up. If
	// the renewal fails, HandOver returns the error; the lease is still held unless
	// the error matches ErrLost. Then it cancels Context, with a cause that matches
	// ErrReleased. Once HandOver has returned a Handover, this process no longer
	// trusts the lease and sends nothing more for it. A lease that nobody adopts runs
	// out; an infinite one stays until it is broken. Inside Do HandOver is refused
	// with ErrInvalid, since the function has not returned.
	HandOver(ctx context.Context) (Handover, error)

	sealed.LeaseInterface
}
