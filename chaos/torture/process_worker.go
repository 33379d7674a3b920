package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// workerVariable makes a process a worker.
const workerVariable = "LEASING_TORTURE_WORKER"

// WorkerMain is the first call in the main function, or in TestMain, of a program
// that Options.Process starts. In a worker process it works, until the run ends it,
// and then ends the process. In others it returns at once. open opens the backend's
// client, like Options.Open of the run.
func WorkerMain(open func(ctx context.Context) (leasing.Provider, error)) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	out := newLines(os.Stdout)
	if err := workIn(os.Stdin, out, open); err != nil {
		out.say(notice{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// remote is the run, as a worker process sees it.
type remote struct {
	out *lines

	mu      sync.Mutex
	waiting map[int]chan response
	number  int
	calmed  bool   // the faults are to end
	calm    func() // ends them; nil before there can be any
}

func (r *remote) enter(e entry) { r.out.say(notice{Entry: &e}) }

func (r *remote) fill(place int, w Write) { r.out.say(notice{Fill: &filling{place, w}}) }

func (r *remote) write(ctx context.Context, name string, token int64) (place int, accepted bool, err error) {
	r.mu.Lock()
	r.number++
	number, reply := r.number, make(chan response, 1)
	r.waiting[number] = reply
	r.mu.Unlock()
	r.out.say(notice{Write: &request{number, name, token}})
	select {
	case a := <-reply:
		if a.Failed {
			return 0, false, errors.New("the resource failed")
		}
		return a.Place, a.Accepted, nil
	case <-ctx.Done():
		return 0, false, context.Cause(ctx)
	}
}

func (r *remote) wrote(a response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[a.Request] <- a
	delete(r.waiting, a.Request)
}

// workIn is a worker process's work. The end of in is the run's.
func workIn(in io.Reader, out *lines, open func(ctx context.Context) (leasing.Provider, error)) error {
	orders := json.NewDecoder(in)
	var first order
	if err := orders.Decode(&first); err != nil || first.Job == nil {
		return fmt.Errorf("a worker process is started by a run: %w", err)
	}
	out.say(notice{Ready: true})
	j, home := first.Job, &remote{out: out, waiting: map[int]chan response{}}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	options := Options{TTL: j.TTL, Seed: j.Seed, Plan: j.Plan, Patience: j.Patience, Open: open, Manager: j.Manager.options(j.TTL)}
	go home.listen(orders, stop)
	l, err := home.open(ctx, options, j)
	if err != nil {
		return err
	}
	if l == nil { // the backend was not there, and the run is over
		return nil
	}
	err = labelled(ctx, "worker", func(ctx context.Context) error {
		return errors.Join(newWorker(j.Index, options, j.Names, l.client, home).run(ctx), l.client.Close())
	})
	for _, v := range leftGoroutines("worker", j.Patience, l.client.clock.now) {
		out.say(notice{Violation: &v})
	}
	return err
}

// open opens the client, again and again while the backend is not there: the worker
// may have been started in the middle of an outage.
func (r *remote) open(ctx context.Context, options Options, j *job) (*layers, error) {
	for {
		l, err := openLayers(ctx, options, j.Run, j.Index, joinClock(j.Epoch), r)
		switch {
		case err == nil:
			r.calmWith(l.calm)
			return l, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // the run is over before the backend was there
		case !errors.Is(err, leasing.ErrUnavailable):
			return nil, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// listen obeys the run's orders. Their end, too, is the end of the work.
func (r *remote) listen(orders *json.Decoder, stop context.CancelFunc) {
	defer stop()
	for {
		var o order
		switch err := orders.Decode(&o); {
		case err != nil:
			return
		case o.Calm:
			r.calmWith(nil)
		case o.Stop:
			stop()
		case o.Wrote != nil:
			r.wrote(*o.Wrote)
		}
	}
}

// calmWith ends the faults when it has been both told to, with nil, and how.
func (r *remote) calmWith(how func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if how == nil {
		r.calmed = true
	} else {
		r.calm = how
	}
	if r.calmed && r.calm != nil {
		r.calm()
	}
}
