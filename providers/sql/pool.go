package sqllease

import (
	"context"
	"math"

	"golang.org/x/sync/semaphore"
)

// limited runs statements of which only so many are under way at a time, in the order in which they came.
type limited struct {
	statements
	places *semaphore.Weighted
}

// limitedTo leaves one of so many connections to renewals, which don't pass through it: acquires that wait for row locks,
// or a burst of them, can't make leases run out. There is no limit for one connection, nor for 0, which stands for no bound.
func limitedTo(connections int, on statements) limited {
	most := int64(connections - 1)
	if most < 1 {
		most = math.MaxInt64
	}
	return limited{on, semaphore.NewWeighted(most)}
}

func (l limited) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := l.places.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.places.Release(1)
	return l.statements.query(ctx, statement, args, each)
}
