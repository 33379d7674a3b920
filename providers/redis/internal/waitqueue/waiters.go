// Package waitqueue is the part of a process in the queues that Redis has of those who wait for
// a name (scripts/waiting.lua): see package waitqueue of providerkit.
package waitqueue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// Queue are this process' claims that wait at a node. Each process listens on one channel for
// all of its waiters.
type Queue struct {
	*waitqueue.Queue[script.Keys]
	client redis.UniversalClient
}

// heartbeat is how long the connection may be silent before it is asked whether it lives.
const heartbeat = 10 * time.Second

// New makes a queue for the claims of this process. dequeue has a claim leave the queue
// that Redis has.
func New(client redis.UniversalClient, channel string, dequeue func(ctx context.Context, k script.Keys, id string)) *Queue {
	q := &Queue{waitqueue.New(channel, dequeue), client}
	q.Hints.Connect, q.Hints.Silence = q.connect, heartbeat
	return q
}

// Listening says whether this process listens on its channel.
func (q *Queue) Listening() bool { return q.Hints.Listening() }

// Listen begins to listen, and returns once this process does.
func (q *Queue) Listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := q.Hints.Wait(ctx, "")
	return failure.Of(err)
}

// Register returns the hints for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (q *Queue) Register(ctx context.Context, k script.Keys, id string) (abstractions.Wakeups, error) {
	hints, err := q.Queue.Register(ctx, k, id)
	return hints, failure.Of(err)
}

// message takes "id delay key": ask after so many milliseconds. It returns the claim if that
// is now.
func (q *Queue) message(text string) (now string) {
	id, rest, _ := strings.Cut(text, " ")
	delay, key, _ := strings.Cut(rest, " ")
	after, err := strconv.Atoi(delay)
	if err != nil {
		return "" // not ours
	}
	var keys *script.Keys
	if strings.HasSuffix(key, "}") {
		k := script.KeysAt(key)
		keys = &k
	}
	if !q.Due(id, time.Duration(after)*time.Millisecond, keys) {
		return ""
	}
	return id
}
