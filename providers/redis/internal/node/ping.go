package node

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

// Ping asks the server, or each master of a Cluster, whether it answers.
func (d *Node) Ping(ctx context.Context) error {
	_, err := aside(ctx, d, func(ctx context.Context) (none struct{}, err error) {
		if d.cluster == nil {
			return none, d.Client.Ping(ctx).Err()
		}
		return none, d.cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return master.Ping(ctx).Err()
		})
	})
	return err
}

// aside makes a request that is none of the script's. It ends when ctx does,
// also where the user's client heeds no deadline, and no client heeds a
// cancellation: then the request goes on for as long as the client lets it, and
// close waits for it. ctx needs a deadline.
func aside[T any](ctx context.Context, d *Node, request func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, failure.Of(ctx.Err())
	}
	done := make(chan answer, 1)
	if !d.after.Start(func() {
		value, err := request(ctx)
		done <- answer{value, err}
	}) {
		return none, abstractions.ErrClosed
	}
	select {
	case a := <-done:
		return a.value, failure.Of(a.err)
	case <-ctx.Done():
		return none, failure.Of(ctx.Err())
	}
}
