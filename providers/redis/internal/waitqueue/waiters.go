// Package waitqueue is this process' part of the queues of waiters that Redis keeps for each
// name (scripts/waiting.lua): see package waitqueue of providerkit.
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

// Queue holds this process' claims that wait at a node. Each process listens on one channel for
// all of its waiters.
type Queue struct {
	*waitqueue.Queue[place]
	client redis.UniversalClient
}

// place is the name that a claim waits for, and the claim's owner.
type place struct {
	script.Keys
	owner string
}

// heartbeat is the silence after which the connection is checked with a PING.
const heartbeat = 10 * time.Second

// New makes a queue for the claims of this process. dequeue removes a claim from the queue
// in Redis, where its entry is the text that PlaceOf has returned.
func New(client redis.UniversalClient, channel string, dequeue func(ctx context.Context, k script.Keys, id, at string)) *Queue {
	q := &Queue{waitqueue.New(channel, func(ctx context.Context, p place, id string) {
		dequeue(ctx, p.Keys, id, script.Place(channel, p.owner))
	}), client}
	q.Wakeups.Connect, q.Wakeups.Silence = q.connect, heartbeat
	return q
}

// Listen starts the subscription, and returns once this process listens.
func (q *Queue) Listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := q.Wakeups.Wait(ctx, "")
	return failure.Of(err)
}

// Register returns the wake-ups for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (q *Queue) Register(ctx context.Context, k script.Keys, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	wakeups, err := q.Queue.Register(ctx, place{k, req.Owner}, req.ID)
	return wakeups, failure.Of(err)
}

// RegisterOn is Register with an existing channel for the wake-ups.
func (q *Queue) RegisterOn(ctx context.Context, k script.Keys, req abstractions.WaitRequest, wakeups chan struct{}) error {
	return failure.Of(q.Queue.RegisterOn(ctx, place{k, req.Owner}, req.ID, wakeups))
}

// PlaceOf returns the entry of a waiting claim in the queue in Redis: the channel for its wake-up,
// and its owner. It is empty for a claim that does not wait.
func (q *Queue) PlaceOf(id string) string {
	p, ok := q.Join(id)
	if !ok {
		return ""
	}
	return script.Place(q.Channel, p.owner)
}

// parse parses "id delay key", followed by the owner on a line of its own: the claim should send
// its acquire after delay milliseconds. If that time has come, parse returns the claim.
func (q *Queue) parse(text string) (now string) {
	id, rest, _ := strings.Cut(text, " ")
	delay, rest, _ := strings.Cut(rest, " ")
	after, err := strconv.Atoi(delay)
	if err != nil {
		return "" // not ours
	}
	var at *place
	if key, owner, _ := strings.Cut(rest, "\n"); strings.HasSuffix(key, "}") {
		at = &place{script.KeysAt(key), owner}
	}
	if !q.Due(id, time.Duration(after)*time.Millisecond, at) {
		return ""
	}
	return id
}
