package deadlock

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

// HeldLongerThan lists the records of the names that begin with prefix ("": all) and
// that one holder has had for longer than age, by the backend's clock. A long hold
// is not a deadlock: the holder still renews, and may need the lease. Use the result
// to find out whom to ask, or with leasing.ForceRelease. Records without
// Record.AcquiredAt are left out.
func HeldLongerThan(ctx context.Context, manager *leasing.Manager, prefix string, age time.Duration) ([]leasing.Record, error) {
	var old []leasing.Record
	for r, err := range manager.List(ctx, leasing.ListOptions{Prefix: prefix, HeldOnly: true}) {
		if err != nil {
			return nil, err
		}
		if !r.AcquiredAt.IsZero() && !r.Now.IsZero() && r.Now.Sub(r.AcquiredAt) > age {
			old = append(old, r)
		}
	}
	return old, nil
}
