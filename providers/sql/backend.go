package sqllease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// backend is a dialect at work: what a database must be able to do. Another
// one is added by implementing it in a file of its own, and naming it in
// Dialect and Open. Its errors come with their meaning (see failures.go).
type backend interface {
	capabilities() abstractions.Capabilities

	// apply makes one change to one name, atomically: between reading the row
	// that the rule sees and writing what the rule wants, nobody else writes
	// it. New deadlines and tokens are computed from the database's clock, read
	// no earlier than the row was locked for writing.
	apply(ctx context.Context, op op) (outcome, error)

	// renew extends the claims that are live, in one statement, with the rows
	// locked in the order of their names. Names are distinct. With wait it
	// waits for rows that others have locked; without it leaves them out, and
	// their verdicts are unknown.
	renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]verdict, error)

	read(ctx context.Context, name string) (row, error)
	list(ctx context.Context, q listQuery) ([]row, error)
	history(ctx context.Context, q historyQuery) ([]event, error)

	// sweep looks at the next limit names after one, in order, and deletes
	// those that may be forgotten. The last name is "" at the end of the table.
	sweep(ctx context.Context, after string, limit int, idle time.Duration) (swept, error)
	// sweepHistory deletes up to limit of the oldest entries, if older than age.
	sweepHistory(ctx context.Context, limit int, age time.Duration) (deleted int, err error)

	// version is the schema's: 0 if there is none.
	version(ctx context.Context) (int, error)
	// migrate brings the schema from any older version to ours while nobody
	// else does.
	migrate(ctx context.Context) error
	// statements are what migrate runs on an empty database.
	statements() []string

	ping(ctx context.Context) error
	// meaning classifies an error of the client library.
	meaning(err error) meaning
	// close ends what the provider itself opened.
	close() error
}

// op is one change to one name.
type op struct {
	name string
	rule func(*row) change
	// take and give, unless nil, are the requests behind the rule. A dialect
	// may answer their commonest outcome in a cheaper way (an acquire of a
	// free name, a release by its holder) and leave the rest to the rule.
	take *abstractions.AcquireRequest
	give *abstractions.ReleaseRequest
}

// outcome is what an op met and did.
type outcome struct {
	change
	before row // as the rule saw it; with a shortcut only now is set
	// after is the row as written. Without a write it is before.
	after row
}

// verdict is what renew found out about one claim.
type verdict struct {
	row     // as renewed, or as it stood in the way
	renewed bool
	known   bool // false if the row was not looked at
}

type listQuery struct {
	prefix   string
	after    string // the last name of the page before
	heldOnly bool
	limit    int
}

type historyQuery struct {
	name  string
	after int64
	limit int
}

type event struct {
	seq int64
	abstractions.HistoryEntry
}

type swept struct {
	last    string // name that was looked at
	deleted int
}

// expired reports whether the change puts an end to a lease that has run out
// unnoticed, which the history should tell. One that was broken is no news.
func (o *outcome) expired() bool {
	return o.before.ranOut() && !o.before.breaking && (o.newToken || o.id == "")
}
