package dispatch

import (
	"math/bits"
	"slices"
	"time"
)

// Batches gathers items that are due, and sends items that may share a request together. Only the loop of a timetable
// calls Gather and Dispatch: Batches is not safe for concurrent use.
type Batches[T any] struct {
	first, retries *Jobs
	size           int
	send           func(batch []T, divisor time.Duration)
	gathered       map[batchKey][]T
}

// batchKey groups items that may share a request. The most urgent item bounds the time of the whole batch, so a batch has items
// of about the same bound (to a power of two). The more often items have failed, the fewer of them share a request.
type batchKey struct {
	bound    int // the logarithm of the bound of one attempt
	failures int
}

// NewBatches returns batches of up to size items. send sends one batch, and divides the bound of its request by divisor: see
// Jobs. First attempts and retries have separate queues, so items whose requests hang don't keep others from being sent.
func NewBatches[T any](first, retries *Jobs, size int, send func(batch []T, divisor time.Duration)) *Batches[T] {
	return &Batches[T]{first: first, retries: retries, size: size, send: send, gathered: map[batchKey][]T{}}
}

// Gather adds an item whose attempt is due. The attempt may take at most bound, and follows the given number of failures.
func (b *Batches[T]) Gather(item T, bound time.Duration, failures int) {
	key := batchKey{bound: bits.Len64(uint64(bound)), failures: min(failures, 2)}
	b.gathered[key] = append(b.gathered[key], item)
}

// Dispatch queues the gathered items. Up to size items without a failure share a request. After one failure a request carries up
// to size/16 items, and after more failures up to size/256. It carries at least one item.
func (b *Batches[T]) Dispatch() {
	for key, items := range b.gathered {
		q := b.first
		if key.failures > 0 {
			q = b.retries
		}
		for batch := range slices.Chunk(items, max(1, b.size>>(4*key.failures))) {
			q.Add(time.Duration(1)<<max(key.bound-1, 0)/overdueDivisor, func(divisor time.Duration) { b.send(batch, divisor) })
		}
		delete(b.gathered, key)
	}
}
