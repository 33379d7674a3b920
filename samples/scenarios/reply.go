package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/place"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// reply is a message that is answered once although it is delivered several
// times: example 4 of leases, "coordinating inbox and outbox".
//
// Each message comes three times at the same time, as when the queue's patience
// is shorter than the work takes. Four processes take the deliveries in. The holder
// of the lease reply/<message> composes the reply and sends it; the others don't
// wait for the lease, but abandon their delivery, get it again a little later, and find
// that the message is answered.
//
// The lease saves the work of composing a reply twice. The outbox makes the reply
// unique: it takes one reply per message and checks the token.
// So look at the worker that stalls: its renewals don't get through, its lease
// runs out, another one replies, and then its own reply comes, and is refused.
var reply = runner.Scenario{
	Name: "reply", About: "one reply to a message that is delivered several times",
	TTL:     15 * time.Second,
	Control: controlReply, Work: workReply,
}

const (
	repliers = 4
	inbox    = 12
	// copies is the number of deliveries of each message.
	copies = 3
	// stalled is the message whose first worker stalls.
	stalled = "message-05"
	// effort is the time to compose a reply.
	effort = 200 * time.Millisecond
	// again is the delay until the next delivery of an abandoned message.
	again = 100 * time.Millisecond
)

// The kinds of the workers' reports.
const (
	composes  = "composes"
	composing = "composing" // the stalled message; waits to be continued
	sent      = "sent"
	abandoned = "abandoned" // a delivery: it comes again
	tooLate   = "too late"  // the outbox has refused a reply
)

// workReply takes this worker's deliveries in, at the same time.
func workReply(ctx context.Context, w *runner.Worker) error {
	deliveries, ctx := errgroup.WithContext(ctx)
	for m := range inbox {
		for c := range copies {
			if fmt.Sprintf("w%d", (m+c)%repliers+1) == w.Name {
				deliveries.Go(func() error { return deliver(ctx, w, fmt.Sprintf("message-%02d", m+1)) })
			}
		}
	}
	return deliveries.Wait()
}

// deliver is the queue: a delivery comes again until it is acknowledged.
func deliver(ctx context.Context, w *runner.Worker, message string) error {
	for {
		acknowledged, err := handle(ctx, w, message)
		if err != nil || acknowledged {
			return err
		}
		if err := wait(ctx, again); err != nil {
			return err
		}
	}
}

// handle answers a message, or leaves it to the worker that holds the message's lease.
func handle(ctx context.Context, w *runner.Worker, message string) (acknowledged bool, err error) {
	name, outbox := "reply/"+message, place.Journal{Data: w.Data}
	var options leasing.AcquireOptions
	if message == stalled { // as if no renewal got through
		options = leasing.AcquireOptions{TTL: time.Second, NoAutoRenew: true}
	}
	err = w.Manager.With(options).TryDo(ctx, name, func(leased context.Context, lease *leasing.Lease) error {
		answered, err := outbox.Has(leased, name, lease.Token(), message)
		if err != nil || answered {
			acknowledged = answered
			return err
		}
		w.Say(composes, 0, "composes the reply to %s", message)
		sending := leased // so that nothing is sent once the lease is lost
		if message == stalled {
			// This takes as long as the parent wants: for the first worker, longer than its lease
			// lasts. No application goes on then; but its last request may still be on its way, as here.
			w.SayAndWait(composing, 0, "")
			sending = ctx
		} else if err := wait(leased, effort); err != nil {
			return err
		}
		first, err := outbox.Note(sending, name, lease.Token(), message, w.Name)
		if first {
			w.Say(sent, 0, "has sent the reply to %s", message)
		}
		acknowledged = err == nil
		return err
	})
	switch {
	case errors.Is(err, leasing.ErrStale):
		w.Say(tooLate, 0, "has its late reply to %s refused: %v", message, err)
	case errors.Is(err, leasing.ErrHeld), errors.Is(err, leasing.ErrUnavailable):
		w.Say(abandoned, 0, "") // another worker will produce the reply, or it is delivered again
	case err != nil && !errors.Is(err, leasing.ErrLost): // of a loss the outbox takes care
		return false, err
	}
	return acknowledged, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func controlReply(ctx context.Context, s *runner.Runner) error {
	outbox := place.Journal{Data: s.Data}
	if err := outbox.Create(ctx); err != nil {
		return err
	}
	s.Announce("%d messages are delivered %d times each, to %d workers", inbox, copies, repliers)
	counts, staller, refusedIt := map[string]int{}, "", false
	if err := s.RunWorkers(ctx, repliers, "", func(r runner.Report) {
		counts[r.Kind]++
		switch {
		case r.Kind == composing && staller == "":
			staller = r.Worker
			s.Announce("%s is cut off with the reply to %s", r.Worker, stalled)
		case r.Kind == composing:
			s.Continue(r.Worker)
		case r.Kind == tooLate: // on a busy machine another one may be too late as well
			refusedIt = refusedIt || r.Worker == staller
		case r.Kind == sent && r.Text == "has sent the reply to "+stalled && r.Worker != staller:
			s.Announce("%s gets through again", staller)
			s.Continue(staller)
		}
	}); err != nil {
		return err
	}
	replies, err := outbox.All(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(replies) != inbox || counts[sent] != inbox:
		return fmt.Errorf("%d replies are in the outbox and %d were sent, for %d messages", len(replies), counts[sent], inbox)
	case replies[stalled] == staller:
		return fmt.Errorf("the late reply of %s was not refused", staller)
	case !refusedIt || counts[abandoned] == 0:
		return fmt.Errorf("the late reply of %s was refused: %t; deliveries abandoned: %d", staller, refusedIt, counts[abandoned])
	}
	s.OK("%d deliveries of %d messages: exactly one reply each", inbox*copies, inbox)
	s.OK("replies were composed %d times, and deliveries abandoned %d times", counts[composes], counts[abandoned])
	s.OK("the late reply of the worker that had stalled was refused")
	return nil
}
