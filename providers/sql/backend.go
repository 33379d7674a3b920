package sqllease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// backend is a dialect at work: what a database must be able to do. Another
// one is added by implementing it in a file of its own, and naming it in
// Dialect and Open. See package sqlkit for its errors.
type backend interface {
	// apply makes one change to one name, atomically: between reading the row
	// that the rule sees and writing what the rule wants, nobody else writes
	// it. New deadlines and tokens are computed from the database's clock, read
	// no earlier than the row was locked for writing.
	apply(ctx context.Context, op op) (applied, error)

	// renew extends the claims that are live, in one transaction. With wait it waits
	// for rows that others have locked; without it may leave them out, and their
	// results are not known.
	renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error)

	// read returns the record of a name. What it remembers of ended IDs is no use.
	read(ctx context.Context, name string) (providerkit.Record, error)
	// list returns up to limit records.
	list(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error)
	// query runs a statement that only reads.
	query(ctx context.Context, statement string, args []any, each func(scan) error) error

	// waiting tells who waits for a name.
	waiting(ctx context.Context, name string) ([]abstractions.Waiting, error)
	// wait registers a waiter.
	wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error)

	// sweep looks at the next limit names, in order, and deletes those that may be
	// forgotten after they were idle for so long. It begins after a name, or where the latest sweep without one
	// ended, of whichever process. The last name is "" at the end of the table.
	sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error)
	// writeHistory appends entries, all or none.
	writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error
	// sweepHistory deletes up to limit of the oldest entries, if they are too old.
	sweepHistory(ctx context.Context, limit int) (deleted int, err error)

	// version is that of the tables: 0 if there are none.
	version(ctx context.Context) (int, error)
	// migrate makes the tables while nobody else does.
	migrate(ctx context.Context) error

	// verdict judges an error of the client library.
	verdict(err error) sqlkit.Verdict
	// close ends what the provider itself opened.
	close() error
}

// maxTTL keeps deadlines within what both databases and Go can count.
const maxTTL = 100 * 365 * 24 * time.Hour

func capabilities(dialect Dialect, clock string, heedsContext bool) abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       string(dialect),
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

// op is one change to one name.
type op struct {
	name, id string
	rule     func(*providerkit.Record) providerkit.Change
	// acquire and release, unless nil, are the requests behind the rule. A dialect
	// may answer their commonest outcome in a cheaper way (an acquire of a
	// free name, a release by its holder) and leave the rest to the rule.
	acquire *abstractions.AcquireRequest
	release *abstractions.ReleaseRequest
}

// applied is what an op did.
type applied struct {
	providerkit.Change
	after providerkit.Record // as written; as read if nothing was
}

// renewed is the answer to a renewal.
func (a *applied) renewed(ttl time.Duration) (result abstractions.RenewResult) {
	if result.Err = a.Err; a.Err == nil {
		result.Grant = grant(&a.after, ttl)
	}
	return result
}
