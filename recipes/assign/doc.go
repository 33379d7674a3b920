// Package assign spreads partitions evenly over the workers that live: the shards of a
// stream, the queues of a broker, the tenants of a service. Each is worked on by one
// worker at a time.
//
//	worker, err := assign.New(manager, assign.Options{
//		Name:       "orders",
//		Partitions: partitions, // the same for all workers
//		Work: func(ctx context.Context, partition string, lease leasing.Lease) error {
//			return consume(ctx, partition, lease.Token()) // until ctx ends
//		},
//	})
//	...
//	err = worker.Run(ctx)
//
// # How it works
//
// A worker that lives holds a lease, orders/worker/ID, and each partition that it works
// on is another: orders/partition/P. From time to time (Options.Every) each worker
// lists them. All make the same plan of the same list:
//
//   - With P partitions and W workers each has P/W of them, or one more.
//   - A partition stays with the worker that holds it, unless that one has too many.
//   - Where Options.Preferred names a worker that lives, and that one has room, the
//     partition is planned for it.
//
// Then each worker asks for what is planned for it, and waits where another one still
// holds it. A worker that holds what is planned for another gives it up by itself: the
// context of its work ends with [ErrMoved], and the lease is released when the work has
// returned. So nobody takes a partition from a worker that lives, and the one who
// waits has it right after. If two workers see different lists, the worst is that a
// partition moves once more than it had to, or waits for the next look.
//
// # What it promises
//
// A partition's work runs under its lease, and promises no more than that: two workers
// never trust one partition's lease at a time, and a paused process is not stopped.
// Pass the lease's token to what the work writes to: see package fencing.
//
// The workers' shares differ by one at most, once all of them have looked and the work
// that was to move has returned. After a worker has died that is TTL plus Every later,
// after one has come Every later, by default a quarter of the TTL. While the
// list of those who live doesn't change, nothing moves.
//
// A new worker gets only its share, and its share of nothing but what others have too
// much of. When a worker dies only what it held moves.
//
// # Deployments
//
// Call [Worker.Leave] before the process ends. The worker is then no longer counted,
// and goes on until the others have looked and wait for its partitions: each goes over
// as its work returns. If the context of Run ends instead, the work ends at once, and
// its partitions are free until the others look.
//
// # What it does not promise
//
// That the work of partitions is even: they are counted, not weighed. That workers with
// different lists of Partitions agree: while they do not, some partitions
// may have no worker, and shares be uneven. That a partition moves whose work does not
// return: its worker keeps it.
//
// It needs a provider that lists. Where reads may lag (Capabilities.ReadsMayLag) more
// partitions may move than have to.
//
// # What it costs
//
// One listing of all held leases of the name for each worker and Every, the renewals of
// P + W leases, and an acquire and a release for each partition that moves.
package assign
