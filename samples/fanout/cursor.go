package main

import (
	"context"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// cursor is the resource that the lease protects: how far the topic has been
// dispatched, and what was. It does not rely on its callers' manners; it checks
// the fencing token.
type cursor interface {
	create(ctx context.Context) error
	// read returns the position, and shows the cursor the token.
	read(ctx context.Context, token int64) (position int64, err error)
	// dispatch hands the messages after position to their subscribers, up to
	// next, and moves the cursor there, or does nothing of it.
	dispatch(ctx context.Context, token, position, next int64) error
	// outcome returns the position and all dispatches in their order.
	outcome(ctx context.Context) (position int64, sent []dispatched, err error)
	close()
}

// dispatched is one message that was handed to its subscribers.
type dispatched struct{ Message, Token int64 }

func openCursor(p place.Place) (cursor, error) {
	if p.OnRedis() {
		return openRedisCursor(p)
	}
	return openSQLCursor(p)
}
