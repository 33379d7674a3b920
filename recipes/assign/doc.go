// Package assign distributes partitions (the shards of a stream, the queues of a broker, the tenants of a service) evenly over
// the live workers. One worker at a time processes each partition.
//
//	worker, err := assign.New(manager, assign.Options{
//		Name:       "orders",
//		Partitions: partitions, // the same for all workers
//		Work: func(ctx context.Context, partition string, lease *leasing.Lease) error {
//			return consume(ctx, partition, lease.Token()) // until ctx ends
//		},
//	})
//	...
//	err = worker.Run(ctx)
//
// # How it works
//
// A live worker holds a lease orders/worker/ID, and a lease orders/partition/P for each
// partition that it processes. Each worker lists these leases at intervals of Options.Every. From
// the same list all workers make the same plan:
//
//   - With P partitions and W workers each worker gets P/W partitions, or one more.
//   - A partition stays with the worker that holds it, unless that worker has too many.
//   - A partition goes to the worker that Options.Preferred names, if that worker
//     is alive and has room.
//
// Then each worker acquires the partitions planned for it, and waits for those that another worker
// still holds. A worker that holds a partition planned for another worker gives the partition up
// voluntarily: the context of its work ends with [ErrMoved], and the lease is released when the
// work has returned. So no partition is taken from a live worker, and the waiting worker gets it
// right after the release. If two workers see different lists, the worst outcome is that a
// partition moves once too often, or waits for the next listing.
//
// # What it promises
//
// Work on a partition runs under the partition's lease, which is its only protection: two workers
// never trust one partition's lease at the same time, but a paused process is not stopped. Pass the
// lease's token to the resources that the work writes to: see package fencing.
//
// The workers' shares differ by at most one, once all workers have made a listing and the work of
// the moving partitions has returned. This takes up to TTL plus Every after a worker has died, and
// up to Every after a worker has joined. While the set of live workers doesn't change, nothing
// moves.
//
// A new worker gets its share only from partitions that other workers have in excess.
// When a worker dies only its partitions move.
//
// # Deployments
//
// Call [Worker.Leave] before the process ends. The worker then no longer counts as live, but
// continues its work until the others have made a listing and wait for its partitions. Each
// partition is handed over when its work returns. If the context of Run ends instead, the work is cancelled at once, and its
// partitions have no worker until the others' next listing.
//
// # Rollouts that change the partitions
//
// While workers have different lists of Partitions, they share the names that all of them have, so a rollout that adds names
// leaves no old name without a worker. A name that some lists lack stays with its worker, and no other worker begins to work on
// the name. Work on a new name begins when the last worker without the name has left. Work on a removed name ends when the last
// worker with the name has left. Until then shares may be uneven. The lease of a worker publishes its list as a Bloom filter of
// 3 bytes for each name, up to 2 KiB, in metadata that Options.Lease leaves free. The filter of a list of up to 680 names matches
// about one in 10,000 of the names that the list lacks, and the filter of 2,000 names one in 40. Such a name counts as shared;
// shares are then uneven, and an old name may have no worker.
//
// # What it does not promise
//
// The load need not be even: partitions are counted, not weighted. A partition whose work does not return does not move.
//
// The provider must be a Lister. If its reads may lag (Capabilities.ReadsMayLag),
// more partitions than necessary may move.
//
// # What it costs
//
// Each worker makes one listing of the group's held leases per Every. There are P + W
// leases to renew, and an acquire and a release for each partition that moves.
package assign
