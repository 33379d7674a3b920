package main

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	leaseName = "fanout/orders.placed"
	// ttl is short, so that one needn't wait long for a dead holder's lease.
	ttl = 2 * time.Second
	// batch is how many messages are dispatched at a time.
	batch = 5
)

// What workers report.
const (
	holds   = "holds"   // the lease; Number is where the cursor is
	ready   = "ready"   // a batch after Number; waits for its cue
	moved   = "moved"   // the cursor to Number
	unsent  = "unsent"  // the lease was lost before the batch was sent
	refused = "refused" // the fence has refused it when it was sent all the same
	late    = "late"    // it was accepted: nobody had shown a later token yet
)

// worker dispatches messages.
type worker struct {
	*show.Worker
	cursor cursor
}

func work(ctx context.Context, me *show.Worker) (err error) {
	manager, closeManager, err := me.Place.Manager(ctx, leasing.Options{
		Owner: me.Name, TTL: ttl,
		MaxPoll: 100 * time.Millisecond, // how soon SQLite's waiters find a lease that was released
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeManager()) }()
	cursor, err := openCursor(me.Place)
	if err != nil {
		return err
	}
	defer cursor.close()

	w := &worker{Worker: me, cursor: cursor}
	for err = leasing.ErrLost; errors.Is(err, leasing.ErrLost); { // another goes on, and we wait in line again
		err = leasing.Do(ctx, manager, leaseName, w.fanOut)
	}
	return err
}

// fanOut dispatches messages until there are no more, or the lease is lost.
func (w *worker) fanOut(ctx context.Context, lease leasing.Lease) error {
	// The cursor is shown the token before it is read. From then on no former
	// holder can move it behind our back.
	position, err := w.cursor.read(ctx, lease.Token())
	if err != nil {
		return err
	}
	w.Say(show.Report{Kind: holds, Token: lease.Token(), Number: position})
	for position < messages {
		next := min(position+batch, messages)
		w.prepare(position)
		err := w.cursor.dispatch(ctx, lease.Token(), position, next)
		if err != nil && lease.Err() != nil {
			return w.sendLate(ctx, lease, position, next)
		}
		if err != nil {
			return err
		}
		position = next
		w.Say(show.Report{Kind: moved, Number: position})
	}
	return nil
}

// prepare stands for the time it takes to read a batch and its subscribers. It
// ends when the play lets it: here workers are killed and paused.
func (w *worker) prepare(position int64) { w.Cue(show.Report{Kind: ready, Number: position}) }

// sendLate does what no application should, for the sake of the show: it sends
// the batch although the lease is lost. A process that is paused a moment later,
// between the look at its lease and the write, does the same and can't help it.
// That the lease is lost Do tells.
func (w *worker) sendLate(ctx context.Context, lease leasing.Lease, position, next int64) error {
	w.Say(show.Report{Kind: unsent, Text: lease.Err().Error()})
	inFlight, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*ttl)
	defer cancel()
	err := w.cursor.dispatch(inFlight, lease.Token(), position, next)
	if errors.Is(err, leasing.ErrStale) {
		w.Say(show.Report{Kind: refused, Number: position, Text: err.Error()})
		return nil
	}
	if err == nil {
		w.Say(show.Report{Kind: late, Number: position})
	}
	return err
}
