package deadlock

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

// HeldLongerThan lists the records of the names that begin with prefix ("": all) and
// that one holder has had for longer than age, by the backend's clock. That is no
// deadlock: a holder may well need it for so long, as it goes on renewing. It is for
// people who want to know whom to ask, and for leasing.ForceRelease. A name whose
// backend keeps no time of the acquire is left out.
func HeldLongerThan(ctx context.Context, manager leasing.Manager, prefix string, age time.Duration) ([]leasing.Record, error) {
	var old []leasing.Record
	for r, err := range manager.List(ctx, &leasing.ListOptions{Prefix: prefix, HeldOnly: true}) {
		if err != nil {
			return nil, err
		}
		if !r.AcquiredAt.IsZero() && !r.Now.IsZero() && r.Now.Sub(r.AcquiredAt) > age {
			old = append(old, r)
		}
	}
	return old, nil
}
