package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

var (
	readScript = fencing.NewRedisScript(`return tonumber(redis.call('GET', KEYS[1]) or '0')`)
	// dispatchScript runs behind the check of the token, in one piece with it.
	dispatchScript = fencing.NewRedisScript(`
for message = ARGV[2] + 1, ARGV[3] do
  redis.call('RPUSH', KEYS[2], string.format('%d ', message) .. ARGV[1])
end
redis.call('SET', KEYS[1], ARGV[3])`)
)

// redisCursor is a number, and a list that stands for the subscribers.
type redisCursor struct {
	client                 *redis.Client
	fence                  *fencing.Redis
	fenceKey, cursor, list string // keys in one slot
}

func openRedisCursor(p place.Place) (*redisCursor, error) {
	client, err := p.Redis()
	if err != nil {
		return nil, err
	}
	fence, err := place.RedisFence(client, fencing.RedisOptions{})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redisCursor{client: client, fence: fence, fenceKey: p.Key("fence"), cursor: p.Key("cursor"), list: p.Key("outbox")}, nil
}

func (c *redisCursor) close() { _ = c.client.Close() }

func (c *redisCursor) create(context.Context) error { return nil }

func (c *redisCursor) read(ctx context.Context, token int64) (int64, error) {
	reply, err := c.fence.Run(ctx, readScript, c.fenceKey, token, []string{c.cursor})
	if err != nil {
		return 0, err
	}
	position, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("the cursor is a %T", reply)
	}
	return position, nil
}

func (c *redisCursor) dispatch(ctx context.Context, token, position, next int64) error {
	_, err := c.fence.Run(ctx, dispatchScript, c.fenceKey, token, []string{c.cursor, c.list}, token, position, next)
	return err
}

func (c *redisCursor) outcome(ctx context.Context) (position int64, sent []dispatched, err error) {
	if position, err = c.client.Get(ctx, c.cursor).Int64(); err != nil {
		return 0, nil, err
	}
	lines, err := c.client.LRange(ctx, c.list, 0, -1).Result()
	if err != nil {
		return 0, nil, err
	}
	for _, line := range lines {
		var d dispatched
		if _, err := fmt.Sscan(line, &d.Message, &d.Token); err != nil {
			return 0, nil, fmt.Errorf("in the outbox: %q: %w", line, err)
		}
		sent = append(sent, d)
	}
	return position, sent, nil
}
