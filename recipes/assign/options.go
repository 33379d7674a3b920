package assign

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Key is the metadata key under which each partition's lease holds the ID of its
// worker.
const Key = "assign.worker"

// Options describe a worker.
type Options struct {
	// Name is the name of the group of workers. Required. Its leases are called Name/worker/ID and
	// Name/partition/P. Use these names for nothing else.
	Name string
	// Partitions are the names of the partitions, in any order, the same for all
	// workers; during a rollout see the package documentation. Required.
	Partitions []string

	// Work is called for each partition that the worker gets, on a goroutine of its
	// own. It should return soon after ctx has ended; context.Cause says why: a
	// *leasing.LostError, ErrMoved, ErrLeft, or the cause of the context given to Run.
	// If it returns while ctx is alive the partition is released, and after the next
	// listing Work is called for it again, in this worker or another. Required.
	Work func(ctx context.Context, partition string, lease *leasing.Lease) error

	// Worker is the worker's ID, unique among running processes. If a restarted process
	// has the same ID, like a pod of a StatefulSet, it waits until its predecessor's
	// lease has ended. Default: a random ID.
	Worker string

	// Preferred, unless nil, returns the ID of the worker that should have a partition, or "". That
	// worker, if it is alive, gets the partition unless other partitions that prefer the worker
	// fill its share. Preferred must return the same in all workers, and not block.
	Preferred func(partition string) string

	// OnError, unless nil, is called with each error: an error from Work, the loss or failed
	// release of a lease, or, with partition "", a failed listing, which moves no partition.
	// Several goroutines may call it at the same time.
	OnError func(partition string, err error)

	// Lease configures the worker's lease and the leases of its partitions: their TTL, for example.
	// Lease.Metadata is added to each of these leases. WaitLimit must be 0, and TTL finite.
	Lease leasing.AcquireOptions

	// Every is the time from one listing to the next; up to a quarter of that time is subtracted at
	// random. Default: a quarter of the TTL, at most 1 min.
	Every time.Duration `option:"min=1ms"`
}

func (o Options) complete(c leasing.Capabilities) (Options, error) {
	if o.Worker == "" {
		o.Worker = abstractions.NewID()
	}
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	o.Partitions = slices.Sorted(slices.Values(o.Partitions))
	switch {
	case len(o.Partitions) == 0 || len(slices.Compact(slices.Clone(o.Partitions))) != len(o.Partitions):
		return o, &leasing.InvalidError{Field: "Options.Partitions", Value: o.Partitions, Want: "at least one partition, and each once"}
	case o.Work == nil:
		return o, &leasing.InvalidError{Field: "Options.Work", Value: nil, Want: "a function"}
	case o.Lease.WaitLimit != 0:
		return o, &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: a worker waits for its planned partitions"}
	case o.Lease.TTL == leasing.Infinite:
		return o, &leasing.InvalidError{Field: "Options.Lease.TTL", Value: "infinite", Want: "finite: the leases of a worker that dies must run out"}
	}
	longest := 0
	for _, p := range o.Partitions {
		if err := leasing.ValidateName(p); err != nil {
			return o, err
		}
		longest = max(longest, len(partitionPart+p))
	}
	if err := leasing.ValidateName(o.Worker); err != nil {
		return o, err
	}
	if err := recipe.ValidateName(o.Name, max(longest, len(workerPart+o.Worker)), c); err != nil {
		return o, err
	}
	if o.Preferred == nil {
		o.Preferred = func(string) string { return "" }
	}
	if o.OnError == nil {
		o.OnError = func(string, error) {}
	}
	metadata := maps.Clone(o.Lease.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[Key] = o.Worker
	o.Lease.Metadata = metadata
	return o, nil
}

// The parts of lease names.
const (
	workerPart    = "/worker/"
	partitionPart = "/partition/"
)
