package deadlock

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

// HeldLongerThan lists the records of names with the given prefix ("": all) that one holder has
// held for longer than age, by the backend's clock. A long hold is not a deadlock: the holder still
// renews, and may need the lease. Use the records to contact the holders, or pass them to
// leasing.ForceRelease. Records without Record.AcquiredAt are left out.
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
