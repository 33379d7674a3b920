package abstractions

import (
	"cmp"
	"context"
	"iter"
	"time"
)

// Manager is the interface behind the type leasing.Manager. The methods of that type have the
// same names and document this contract. leasing.ManagerOf makes a leasing.Manager from any
// implementation, and the method Interface returns the implementation. So an application can
// wrap a manager, or use a fake in its tests. Package leasingtest has a fake.
//
// An implementation is safe for concurrent use. Embed a Manager in it, since later releases may
// add methods.
type Manager interface {
	Acquire(ctx context.Context, name string, options AcquireOptions) (Lease, error)
	TryAcquire(ctx context.Context, name string, options AcquireOptions) (Lease, error)
	Adopt(ctx context.Context, handover Handover, options AdoptOptions) (Lease, error)

	Inspect(ctx context.Context, name string) (Record, error)
	Waiters(ctx context.Context, name string) ([]Waiting, error)
	List(ctx context.Context, options ListOptions) iter.Seq2[Record, error]
	History(ctx context.Context, name string, options HistoryOptions) iter.Seq2[HistoryEntry, error]
	Break(ctx context.Context, name string, options BreakOptions) (BreakResult, error)

	Subscribe(observer Observer) (unsubscribe func())
	Health(ctx context.Context) Health
	Capabilities() Capabilities
	Close(ctx context.Context) error
}

// Lease is the interface behind the type leasing.Lease, whose methods document this contract.
// leasing.LeaseOf makes a leasing.Lease from any implementation.
//
// An implementation is safe for concurrent use. Embed a Lease in it, since later releases may
// add methods.
type Lease interface {
	Name() string
	ID() string
	Owner() string
	Token() int64
	TTL() time.Duration
	AcquiredAt() time.Time
	Remaining() time.Duration
	Renewals() int
	Metadata() map[string]string

	Context() context.Context
	Err() error

	Renew(ctx context.Context) error
	SetMetadata(ctx context.Context, metadata map[string]string) error
	SetTTL(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
	HandOver(ctx context.Context) (Handover, error)
}

// AcquireOptions configure the leases that a manager acquires. Zero fields are taken from
// leasing.Options, the options of the manager.
type AcquireOptions struct {
	TTL           time.Duration // or Infinite
	RenewFraction float64
	RenewCadence  time.Duration
	NoAutoRenew   bool
	// MaxRenewals, unless 0, bounds the number of renewals. After that many renewals the
	// lease runs out and is lost with LostRenewalLimit. MaxRenewals must be 0 for an
	// infinite lease.
	MaxRenewals int
	// WaitLimit, unless 0, bounds the wait of Acquire. Acquire always sends at
	// least one request, and its last request may end up to one second after
	// the limit. TryAcquire sends one request, whatever the WaitLimit.
	WaitLimit time.Duration
	// AtLeast, unless 0, is the time for which the name stays taken, counted from
	// Lease.AcquiredAt. A Release before that time leaves the lease at the backend with
	// the rest of AtLeast as its TTL, once a renewal under way has returned. If the process ends early
	// the name stays taken as well, since the first TTL is AtLeast if TTL is shorter. A Break or a
	// HandOver cancels AtLeast. The providers of this library shorten a lease by a renewal (the
	// conformance suite checks that); where a provider can't, the name stays taken for the TTL of the
	// acquire. A copy of a renewal that the network delivers after the Release makes an infinite lease infinite again, so use a
	// finite TTL with AtLeast. AtLeast is at most Capabilities.MaxTTL.
	AtLeast time.Duration
	// Metadata is stored with the lease, and shown by Inspect, List and the errors of
	// waiters. Its size is at most MaxMetadataBytes.
	Metadata map[string]string
	// Observer is called with the events of this lease.
	Observer Observer
}

// Over returns o with its zero fields taken from base. RenewFraction and RenewCadence count as
// one field.
func (o AcquireOptions) Over(base AcquireOptions) AcquireOptions {
	o.TTL = cmp.Or(o.TTL, base.TTL)
	if o.RenewFraction == 0 && o.RenewCadence == 0 {
		o.RenewFraction, o.RenewCadence = base.RenewFraction, base.RenewCadence
	}
	o.NoAutoRenew = o.NoAutoRenew || base.NoAutoRenew
	o.MaxRenewals = cmp.Or(o.MaxRenewals, base.MaxRenewals)
	o.WaitLimit = cmp.Or(o.WaitLimit, base.WaitLimit)
	o.AtLeast = cmp.Or(o.AtLeast, base.AtLeast)
	if o.Metadata == nil {
		o.Metadata = base.Metadata
	}
	if o.Observer == nil {
		o.Observer = base.Observer
	}
	return o
}

// AdoptOptions configure a lease that Adopt continues. Zero fields are taken from
// leasing.Options, the options of the manager.
type AdoptOptions struct {
	TTL           time.Duration // or Infinite
	RenewFraction float64
	RenewCadence  time.Duration
	NoAutoRenew   bool
	MaxRenewals   int // as in AcquireOptions, counted from the Adopt
	// Metadata replaces that of the lease. If it is nil the lease keeps its metadata at the
	// backend, but Lease.Metadata is nil until SetMetadata.
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
	// Grace is the time for which an infinite lease that is broken without Immediate
	// still runs. It must be longer than the holder's RenewCadence, within which the holder
	// learns of the break; otherwise two holders may trust the name. It does not matter for
	// other leases, and must be 0 with Immediate. Default: twice the manager's TTL, at
	// least a minute, but at most Capabilities.MaxTTL.
	Grace time.Duration
}

// ListOptions are the optional parts of a List.
type ListOptions struct {
	Prefix   string // "" lists all
	HeldOnly bool   // leave out names that are free
}

// HistoryOptions are the optional parts of a History.
type HistoryOptions struct {
	NewestFirst bool // default: oldest entry first
}

// Handover identifies a lease for Manager.Adopt. Lease.HandOver returns a Handover. A
// process that wants to keep its lease through a crash stores a Handover beforehand,
// made of the lease's Name, ID and Token. A process that has a Handover can renew and
// release the lease, so keep it secret. JSON includes the ID, but printing omits the
// ID.
type Handover struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Token int64  `json:"token"`
}
