// Command reply shows how a message is answered once although it is delivered
// several times: example 4 of leases, "coordinating inbox and outbox".
//
//	go run ./reply                                 # on a temporary SQLite file, some 2 seconds
//	go run ./reply -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//
// Each message comes three times at the same time, as when the queue's patience
// is shorter than the work takes. Four workers, each with a manager of its own as
// on machines of their own, take the deliveries in. Whoever gets the lease
// reply/<message> composes the reply and sends it; the others don't wait for it,
// but abandon their delivery, get it again a little later, and find that the
// message is answered.
//
// The lease saves the work of composing a reply twice. What makes the reply
// unique is the outbox, which takes one reply per message and checks the token.
// So look at the worker that stalls: its renewals don't get through, its lease
// runs out, another one replies, and then its own reply comes, and is refused.
//
// The exit code is 0 only if exactly one reply per message was sent and the late
// one was refused. worker.go is what an application would have.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/distributedleasing/leasing/samples/internal/journal"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	workers  = 4
	messages = 12
	// copies is how often each message is delivered.
	copies = 3
	// stalled is the message whose first worker stalls.
	stalled = "message-05"
)

func main() { show.Main("reply", play, nil) }

// play delivers the messages and waits until all are answered.
func play(ctx context.Context, s *show.Show) (err error) {
	outbox, err := journal.Open(s.Place)
	if err != nil {
		return err
	}
	defer outbox.Close()
	if err := outbox.Create(ctx); err != nil {
		return err
	}
	s.Line("", "%d messages are delivered %d times each, to %d workers (on %v)", messages, copies, workers, s.Place)
	log := newLog(s)
	team := make([]*worker, workers)
	for i := range team {
		w, err := newWorker(ctx, s.Place, fmt.Sprintf("w%d", i+1), outbox, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.close()) }()
		team[i] = w
	}
	if err := deliver(ctx, team); err != nil {
		return err
	}
	return log.judge(ctx, outbox)
}

// deliver is the inbox: it delivers every copy until it is acknowledged.
func deliver(ctx context.Context, team []*worker) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var deliveries sync.WaitGroup
	for m := range messages {
		for c := range copies {
			w := team[(m+c)%len(team)]
			deliveries.Go(func() {
				if err := w.take(ctx, fmt.Sprintf("message-%02d", m+1)); err != nil {
					cancel(fmt.Errorf("%s: %w", w.name, err))
				}
			})
		}
	}
	deliveries.Wait()
	return context.Cause(ctx)
}
