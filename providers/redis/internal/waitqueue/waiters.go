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
	*waitqueue.Queue[place]
	client redis.UniversalClient
}

// place is what a claim waits for, and who waits.
type place struct {
	script.Keys
	owner string
}

// heartbeat is how long the connection may be silent before it is asked whether it lives.
const heartbeat = 10 * time.Second

// New makes a queue for the claims of this process. dequeue has a claim leave the queue
// that Redis has, where it stands with what PlaceOf has returned.
func New(client redis.UniversalClient, channel string, dequeue func(ctx context.Context, k script.Keys, id, at string)) *Queue {
	q := &Queue{waitqueue.New(channel, func(ctx context.Context, p place, id string) {
		dequeue(ctx, p.Keys, id, script.Place(channel, p.owner))
	}), client}
	q.Wakeups.Connect, q.Wakeups.Silence = q.connect, heartbeat
	return q
}

// Listen begins to listen, and returns once this process does.
func (q *Queue) Listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := q.Wakeups.Wait(ctx, "")
	return failure.Of(err)
}

// Register returns the hints for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (q *Queue) Register(ctx context.Context, k script.Keys, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	hints, err := q.Queue.Register(ctx, place{k, req.Owner}, req.ID)
	return hints, failure.Of(err)
}

// RegisterOn is Register with a channel for the hints.
func (q *Queue) RegisterOn(ctx context.Context, k script.Keys, req abstractions.WaitRequest, hints chan struct{}) error {
	return failure.Of(q.Queue.RegisterOn(ctx, place{k, req.Owner}, req.ID, hints))
}

// PlaceOf is with what a claim stands in the queue that Redis has, if it waits: where to wake it,
// and its owner. Else it is empty.
func (q *Queue) PlaceOf(id string) string {
	p, ok := q.Join(id)
	if !ok {
		return ""
	}
	return script.Place(q.Channel, p.owner)
}

// message takes "id delay key", and the owner in a line of its own: ask after so many
// milliseconds. It returns the claim if that is now.
func (q *Queue) message(text string) (now string) {
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
