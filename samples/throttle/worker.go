package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/semaphore"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	// permits is how many calls the gateway bears at a time.
	permits = 3
	// ttl is how long a dead process keeps its permits from others. It is far
	// longer than a call, so that no call outlives the permit of a process that
	// died in the middle of it.
	ttl = 3 * time.Second
	// crew is how many payments a process charges at a time, if it may.
	crew = 4
	// charges is how many payments a process has.
	charges = 32
)

// options are the same in all processes.
var options = semaphore.Options{Name: "external/payments/throttle", Permits: permits}

// What workers, and the gateway, report.
const (
	warmedUp = "warmed up" // has called without permits; waits for its cue
	inCall   = "in call"   // of the gateway: the worker is in the call in which it is killed
	gauge    = "gauge"     // of the gateway: Number calls at a time
)

// worker charges payments. It is safe for concurrent use.
type worker struct {
	*show.Worker
	payments *semaphore.Semaphore
}

func work(ctx context.Context, me *show.Worker) (err error) {
	manager, closeManager, err := me.Place.Manager(ctx, leasing.Options{
		Owner: me.Name, TTL: ttl,
		MaxPoll: 100 * time.Millisecond, // how soon SQLite's waiters find a permit that was released
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeManager()) }()
	payments, err := semaphore.New(manager, options)
	if err != nil {
		return err
	}
	w := &worker{Worker: me, payments: payments}
	if err := w.chargeAll(ctx, crew, func(ctx context.Context, n int) error { return w.charge(ctx, "trial", n) }); err != nil {
		return err
	}
	w.Cue(show.Report{Kind: warmedUp})
	return w.chargeAll(ctx, charges, w.chargeWithPermit)
}

// chargeWithPermit charges a payment when there is a permit for it. If the
// permit is lost in the middle, ctx ends, and the call with it. The gateway may
// have charged nevertheless, so it is asked for the same payment again, and
// tells a repeated number (an "idempotency key") from a new one.
func (w *worker) chargeWithPermit(ctx context.Context, n int) error {
	err := leasing.ErrLost
	for errors.Is(err, leasing.ErrLost) {
		err = w.payments.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
			return w.charge(ctx, "payment", n)
		})
	}
	return err
}

// chargeAll charges payments, crew of them at a time.
func (w *worker) chargeAll(ctx context.Context, n int, charge func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var team sync.WaitGroup
	for first := range crew {
		team.Go(func() {
			for i := first; i < n; i += crew {
				if err := charge(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	team.Wait()
	return context.Cause(ctx)
}

// charge calls the gateway.
func (w *worker) charge(ctx context.Context, kind string, n int) error {
	url := fmt.Sprintf("%s/%s/%s/%d", w.Arg, kind, w.Name, n)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return nil
}
