package waitqueue

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

// connection is the connection on which a process listens, for all of its waiters.
type connection struct {
	*redis.PubSub
	queue *Queue
}

// connect returns once Redis has confirmed the subscription.
func (q *Queue) connect(ctx context.Context) (wakeup.Connection, error) {
	c := &connection{PubSub: q.client.Subscribe(ctx, q.Channel), queue: q}
	defer providerkit.AfterFunc(ctx, c.Close)()
	if _, err := c.next(ctx); err != nil {
		c.Close()
		return nil, failure.Of(err)
	}
	return c, nil
}

// Receive returns the next claim that should send its acquire.
func (c *connection) Receive(ctx context.Context) (id string, err error) {
	// Only closing the connection ends a read. A deadline ends only the wait for a message, and leaves the connection
	// open.
	defer providerkit.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			c.Close()
		}
	})()
	for id == "" {
		received, err := c.next(ctx)
		if err != nil {
			return "", err
		}
		if m, ok := received.(*redis.Message); ok {
			id = c.queue.parse(m.Payload)
		}
	}
	return id, nil
}

// Ping returns nil once the server has answered. It passes on the wake-ups that arrive before the answer.
func (c *connection) Ping(ctx context.Context) error {
	defer providerkit.AfterFunc(ctx, c.Close)()
	if err := c.PubSub.Ping(ctx); err != nil {
		return err
	}
	for {
		received, err := c.next(ctx)
		if err != nil {
			return err
		}
		switch m := received.(type) {
		case *redis.Message:
			c.queue.Wakeups.Wake(c.queue.parse(m.Payload))
		case *redis.Pong:
			return nil
		}
	}
}

// next returns the next message, or an error when ctx ends. ctx needs a deadline.
func (c *connection) next(ctx context.Context) (any, error) {
	by, _ := ctx.Deadline()
	received, err := c.ReceiveTimeout(ctx, max(time.Until(by), time.Millisecond))
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		<-ctx.Done() // ctx ends at the same time
	}
	return received, err
}

func (c *connection) Close() { _ = c.PubSub.Close() }
