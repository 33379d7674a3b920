package multilease

import (
	"cmp"
	"context"
	"slices"

	"github.com/distributedleasing/leasing"
)

// Of makes a set of leases that are already held, each of a different name. Its
// context keeps the values of ctx. If a lease has already ended, so has the set: see
// Set.Err.
func Of(ctx context.Context, leases ...*leasing.Lease) *Set {
	set := newSet(ctx)
	leases = slices.Clone(leases)
	slices.SortFunc(leases, func(a, b *leasing.Lease) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, lease := range leases {
		set.add(lease)
	}
	return set
}
