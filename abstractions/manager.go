package abstractions

import (
	"context"
	"iter"
	"time"

	"github.com/distributedleasing/leasing/internal/sealed"
)

// Manager acquires leases from one provider and looks after them: it renews
// them, notices their loss, queues those who wait, and tells observers.
// NewManager makes one. It is safe for concurrent use. The interface is closed
// so that it can grow; package leasingtest gives tests real ones.
type Manager interface {
	// Acquire waits for the name until it has it, ctx ends, or
	// options.WaitLimit has passed, and always asks at least once. Those who
	// wait in one manager are served in the order in which they came.
	//
	// If it gives up, the error matches the end of the wait (context.Canceled,
	// context.DeadlineExceeded, the cause of ctx) and what stood in the way:
	// ErrHeld, with a *HeldError that describes the holder, or the backend's
	// last error. A wait limit that ends it is ErrHeld or that error alone.
	// Passing failures of the backend do not end the wait; ErrInvalid,
	// ErrDenied, ErrNotSetUp, ErrReleased, ErrUnsupported and ErrClosed do.
	Acquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error)

	// TryAcquire asks once and does not wait; options.WaitLimit must be 0.
	// It does not queue behind the waiters of this manager, so it may pass
	// them; a backend with a waiters' queue of its own may refuse it in favour
	// of the queue's head.
	TryAcquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error)

	// Adopt goes on with a lease under the ID and token that another process had: one
	// that called Lease.HandOver, or that crashed and had stored them. It renews once,
	// counts trust from before that request and only from it, and does not wait;
	// options.WaitLimit must be 0. Without options.Metadata the lease keeps its
	// metadata, of which Lease.Metadata then knows nothing.
	//
	// The error matches ErrLost if the lease has ended meanwhile. After any other one
	// it may have been renewed, and nobody holds it: adopt it again, or let it run out.
	//
	// Adoption does not stop anybody. After HandOver nobody else trusts the lease. A
	// process from which ID and token were taken otherwise must be known to be gone:
	// while it lives both trust the lease, under one token, so that no fence can tell
	// them apart; and if the adopter's TTL is shorter than the other's, a third may
	// get the name while the other still trusts it.
	//
	// Adopt with a TTL no longer than the one before. A renewal of the process before,
	// delayed in the network until then, counts its own TTL from its arrival, and
	// would cut a longer one short.
	Adopt(ctx context.Context, handover Handover, options *AcquireOptions) (Lease, error)

	// Inspect returns the backend's record of a name without disturbing it.
	Inspect(ctx context.Context, name string) (Record, error)

	// Waiters returns who waits for a name, in the order in which they are served, as
	// the backend's own queue has it. A manager stands in that queue once for each
	// name, with the claim that is next of its own; those behind it queue in its
	// process, and so do those who wait for a lease of their own manager, for as long
	// as Options.MaxPoll. ErrUnsupported if the provider is no WaiterLister.
	Waiters(ctx context.Context, name string) ([]Waiting, error)

	// Break ends somebody's lease: see BreakRequest. Only an operator who
	// knows the holder to be gone should do it with Immediate.
	Break(ctx context.Context, name string, options *BreakOptions) (BreakResult, error)

	// List iterates over the records whose names begin with prefix, page by
	// page as the loop goes on. It ends at the first error; ErrUnsupported if
	// the provider is no Lister.
	List(ctx context.Context, options *ListOptions) iter.Seq2[Record, error]

	// Subscribe calls observer for the events of all leases of the manager
	// until the returned function is called. See Observer.
	Subscribe(observer Observer) (unsubscribe func())

	// Health pings the backend, for at most Options.HealthTimeout, and reports on it
	// and on the leases held. It takes no lease.
	Health(ctx context.Context) Health

	// Capabilities returns the provider's.
	Capabilities() Capabilities

	// Close ends the manager: it refuses new work and ends waits with
	// ErrClosed, cancels the context of every lease (its cause matches
	// ErrReleased and ErrClosed), and waits, while renewals go on, for each
	// Do to return and each other holder to call Release. If ctx ends first,
	// the leases still in use are no longer renewed and run out (to release
	// them would let somebody else in beside their holders; an infinite one
	// stays held until its holder releases it), and a *CloseError names them.
	// Without a deadline Close waits for as long as the leases were trusted
	// when it began (an infinite one counts as the manager's TTL), and then does
	// the same: give it a deadline if work takes longer to wind up. What it waits
	// for it reports as warnings to Options.Logger after two seconds, and again
	// from time to time. Releases that the backend does not answer hold it up for
	// Options.RequestTimeout; then a *CloseError counts them.
	// The provider stays open: whoever opened it closes it.
	// Close may be called again, and from several goroutines: all wait for the
	// first, whose ctx decides when to give up, or until their own ctx ends.
	Close(ctx context.Context) error

	sealed.ManagerInterface
}

// AcquireOptions configure one lease. What is zero is taken from the Options
// of the manager.
type AcquireOptions struct {
	TTL           time.Duration // or Infinite
	RenewFraction float64
	RenewCadence  time.Duration
	NoAutoRenew   bool
	// MaxRenewals, unless 0, is how many times the lease may be renewed; then
	// it runs out and is lost with LostRenewalLimit. Not for an infinite lease.
	MaxRenewals int
	// WaitLimit, unless 0, is how long Acquire waits at most. It always asks
	// at least once. Calls that do not wait refuse it.
	WaitLimit time.Duration
	// Metadata is shown to whoever inspects the name: at most MaxMetadataBytes.
	Metadata map[string]string
	// Observer is told the events of this lease.
	Observer Observer
}

// BreakOptions are the optional parts of a Break: see BreakRequest.
type BreakOptions struct {
	// Actor and Reason say who breaks the lease and why, for people to read.
	// Actor's default is the manager's owner.
	Actor, Reason string
	IfToken       int64
	Immediate     bool
	// Grace matters only for an infinite lease that is broken without
	// Immediate. It has to be longer than the time from one verification of its
	// holder to the next (AcquireOptions.RenewCadence), or two may believe in
	// the name. Default: twice the manager's TTL, at least a minute.
	Grace time.Duration
}

// ListOptions are the optional parts of a List.
type ListOptions struct {
	Prefix   string // "" lists all
	HeldOnly bool   // leave out names that are free
}

// Handover names a lease that goes from one process to another, as Manager.Adopt
// takes it. A process that wants to go on after a crash stores one, made of its
// lease's Name, ID and Token. Whoever knows it can renew and release the lease.
type Handover struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Token int64  `json:"token"`
}

// Lease is a name held. It is safe for concurrent use.
type Lease interface {
	Name() string
	ID() string    // of this claim
	Owner() string // the manager's
	// Token is the fencing token: hand it to the resource that the lease
	// protects, and let it refuse smaller ones. See package fencing.
	Token() int64
	// TTL is as granted. An infinite lease begins with the manager's TTL and is
	// Infinite from its first renewal on, which is sent at once.
	TTL() time.Duration
	// AcquiredAt is when the acquire, or Adopt, was sent, by this process's clock.
	AcquiredAt() time.Time
	// Remaining is how long the lease can be trusted without a further
	// renewal: 0 once it has ended, Infinite for an infinite lease.
	Remaining() time.Duration
	Renewals() int // successful ones
	// Metadata is what the backend has confirmed last: see SetMetadata.
	Metadata() map[string]string

	// Context ends when the lease does, or when its release begins. Its cause
	// is Err. It keeps the values of the context that acquired the lease, but
	// not its cancellation or deadline.
	Context() context.Context
	// Done is Context().Done().
	Done() <-chan struct{}
	// Err is nil while the lease is held, then a *LostError, or an error that
	// matches ErrReleased. It reads the clocks, so it is right even in the
	// moment in which a process wakes up from a pause.
	Err() error

	// Renew renews now, or joins the renewal under way. A failure that leaves
	// the lease held is returned and, with auto-renewal, retried by the manager.
	// When ctx ends Renew returns, and the attempt goes on in the background.
	Renew(ctx context.Context) error

	// SetMetadata renews the lease now and replaces its metadata, which others see
	// once it has succeeded; nil clears it. It counts as a renewal. After a failure
	// that leaves the lease held, and unless the backend refused the metadata for
	// good, the next renewals carry them too, until one succeeds; Metadata shows the
	// old ones until then. Of several calls the last one counts.
	SetMetadata(ctx context.Context, metadata map[string]string) error

	// Release gives the lease up. Call it when the work is over, not before:
	// others may get in from then on. It cancels Context, stops renewing and
	// tells the backend, on a context of its own, so that it works when ctx
	// has already ended; when ctx ends, Release waits one more second for the
	// answer and leaves the rest to the background. It retries for as long as
	// the backend may still believe in the lease.
	//
	// Releasing again returns what the first release did. Releasing a lost
	// lease returns its *LostError: the work may have run unprotected.
	// Inside Do it only cancels the context; Do releases when the function has
	// returned.
	Release(ctx context.Context) error

	// HandOver ends the lease in this process without releasing it, for another
	// process to go on under the same token: see Manager.Adopt. Call it when the work
	// is over, not before, as with Release. It renews first, which gives the other one
	// a whole TTL to adopt the lease. If that fails, the error is returned and the
	// lease is still held. Then it cancels Context, with a cause that matches
	// ErrReleased: when HandOver returns, nobody here trusts the lease, and nothing
	// more is sent for it. A lease that nobody adopts runs out;
	// an infinite one stays until somebody breaks it.
	// Inside Do it is refused, since the function has not returned.
	HandOver(ctx context.Context) (Handover, error)

	sealed.LeaseInterface
}
