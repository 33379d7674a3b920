// Package journal notes what was done, each thing once, and only for those
// whose fencing token is not stale. It is what a protected resource may look
// like: one for a database, and one for Redis.
package journal

import (
	"context"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// Journal is safe for concurrent use.
type Journal interface {
	// Create makes the tables, once.
	Create(ctx context.Context) error
	// Note notes that something was done, and by whom, and reports true; or
	// false if it was noted before. A token smaller than one that was shown for
	// the resource is refused with an error that matches leasing.ErrStale.
	Note(ctx context.Context, resource string, token int64, done, by string) (first bool, err error)
	// Has says whether something is noted, and shows the journal the token: if
	// it was not noted, no holder of a smaller token can note it any more.
	Has(ctx context.Context, resource string, token int64, done string) (bool, error)
	// All returns what was done, and by whom.
	All(ctx context.Context) (map[string]string, error)
	Close()
}

// Open opens the journal of a run. It sends nothing.
func Open(p place.Place) (Journal, error) {
	if p.OnRedis() {
		return openRedis(p)
	}
	return openSQL(p)
}
