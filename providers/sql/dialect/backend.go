package dialect

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// Backend is the part of a provider that a dialect implements: the requests to the database.
// Package sqlkit has the verdicts on errors.
type Backend interface {
	// Apply makes one change to one name, atomically: no other change is written between the read of the row that the rule sees
	// and the write of the rule's change. New deadlines and tokens are computed from the database's clock, read while the row is
	// locked for writing. A [ServerStore] holds no lock, and reads the clock before the row.
	Apply(ctx context.Context, op Op) (Applied, error)

	// Renew extends the claims that are live, in one transaction. With wait it waits
	// for rows that others have locked. Without wait it may leave them out, and report
	// their outcomes as unknown.
	Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error)

	// Read returns the record of a name, without its memory of ended IDs.
	Read(ctx context.Context, name string) (providerkit.Record, error)
	// List returns up to limit records.
	List(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error)
	// Query runs a statement that only reads.
	Query(ctx context.Context, statement string, args []any, each func(Scan) error) error

	// Waiting lists the waiters of a name.
	Waiting(ctx context.Context, name string) ([]abstractions.Waiting, error)
	// Wait registers a waiter.
	Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error)

	// Sweep checks the next limit names, in order, and deletes the names that have been unused for the
	// duration idle and may be forgotten. It begins after the name *after. If after is nil, it begins
	// where the previous call with nil, in any process, stopped. last is the last name checked, or "" at the end of the table.
	Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error)
	// WriteHistory appends all entries, or returns an error and appends no entry.
	WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error
	// SweepHistory deletes up to limit of the oldest entries, if they are too old.
	SweepHistory(ctx context.Context, limit int) (deleted int, err error)

	// Version returns the version of the tables, or 0 without tables.
	Version(ctx context.Context) (int, error)
	// Migrate makes the tables, or brings them up to date, under a lock of the database: see Tables.Install.
	Migrate(ctx context.Context) error

	// Verdict judges an error from the client library.
	Verdict(err error) sqlkit.Verdict
	// Close ends the connections that the provider itself opened.
	Close() error
}

// ErrGone reports that the open database file is no longer at its path. Other processes find
// another file there, or create one, so the leases of this file are lost.
var ErrGone = errors.New("the database file was deleted, moved or replaced while it was open")

// maxTTL keeps deadlines within the ranges of the databases and of Go.
const maxTTL = 100 * 365 * 24 * time.Hour

// Capabilities returns the capabilities that all dialects share. provider is the name of the dialect.
func Capabilities(provider, clock string, heedsContext bool) abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       provider,
		MinTTL:         100 * time.Millisecond,
		MaxTTL:         maxTTL,
		Granularity:    time.Microsecond,
		Infinite:       true,
		Clock:          clock,
		Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
		RemainingKnown: true,
		Queues:         true,
		HeedsContext:   heedsContext,
	}
}

// Op is one change to one name.
type Op struct {
	Name, ID string
	Rule     func(*providerkit.Record) providerkit.Change
	// Acquire or Release, unless nil, is the request behind the rule. A dialect may
	// serve the most common cases (an acquire of a free name, a release by its holder)
	// in a cheaper way, and leave the rest to the rule.
	Acquire *abstractions.AcquireRequest
	Release *abstractions.ReleaseRequest
}

// Applied is the outcome of an [Op].
type Applied struct {
	providerkit.Change
	After providerkit.Record // as written; as read if nothing was written
}

// Renewed returns the result of a renewal.
func (a *Applied) Renewed(ttl time.Duration) (result abstractions.RenewResult) {
	if result.Err = a.Err; a.Err == nil {
		result.Grant = Grant(&a.After, ttl)
	}
	return result
}

// Times is the state of a grant: the database's clock at the grant, and the end of the lease. Expires is zero for an
// infinite lease.
type Times struct{ Now, Expires time.Time }

// Grant returns the grant of a record, with its [Times].
func Grant(r *providerkit.Record, ttl time.Duration) abstractions.Grant {
	g, t := r.Grant(ttl), Times{Now: r.Now}
	if r.Left != abstractions.Infinite {
		t.Expires = r.Now.Add(r.Left)
	}
	g.State = t
	return g
}
