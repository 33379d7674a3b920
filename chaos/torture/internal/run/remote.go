package run

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/rpc"
	"os"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// WorkerMain runs the worker in a worker process until the end of the run, and then exits. In other processes it
// returns at once.
func WorkerMain(open func(ctx context.Context) (leasing.Provider, error)) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	r := remote{rpc.NewClient(pipes{os.Stdin, os.Stdout})}
	if err := r.work(open); err != nil {
		_ = r.Call("Run.Fail", err.Error(), nil)
		os.Exit(1)
	}
	os.Exit(0)
}

// remote is a worker process's side of the run. Its calls fail when the run's process is
// gone, and then the work ends.
type remote struct{ *rpc.Client }

// Enter sends an item to the run, and returns when the run has received the item.
func (r remote) Enter(what any) { _ = r.Call("Run.Enter", &what, nil) }

func (r remote) write(ctx context.Context, w *history.Write) error {
	var request, answer any = *w, nil
	call := r.Go("Run.Write", &request, &answer, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error == nil {
			*w = answer.(history.Write)
		}
		return call.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clock returns a clock set to the run's time. It uses the fastest of 100 answers, because a
// process may wait a long time for a processor between two readings.
func (r remote) clock() (*clock, error) {
	c, quickest := new(clock), time.Duration(math.MaxInt64)
	for range 100 {
		var now time.Duration
		sent := time.Now()
		if err := r.Call("Run.Now", 0, &now); err != nil {
			return nil, err
		}
		if took := time.Since(sent); took < quickest {
			quickest, c.start = took, sent.Add(took/2-now)
		}
	}
	return c, nil
}

// work runs the worker of this process.
func (r remote) work(open func(ctx context.Context) (leasing.Provider, error)) error {
	var text []byte
	var j job
	if err := r.Call("Run.Job", 0, &text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		_ = r.Call("Run.Stopped", 0, nil)
	}()
	options := Options(j.Options)
	options.Open, options.least = open, j.Least
	clock, err := r.clock()
	if err != nil {
		return err
	}
	var c *client
	err = runLabelled(ctx, goroutineLabel, "worker", func(ctx context.Context) (err error) {
		c, err = r.open(ctx, options, j.Index, clock)
		return err
	})
	if err != nil || c == nil {
		return err
	}
	go func() {
		_ = r.Call("Run.FaultsEnded", 0, nil)
		c.endFaults()
	}()
	err = runLabelled(ctx, goroutineLabel, "worker", func(ctx context.Context) error {
		return errors.Join(newWorker(j.Index, options, j.Names, c, r.write).run(ctx), c.Close())
	})
	checkLeftGoroutines("worker", options.Patience, clock, r)
	return err
}

// open opens the client, and retries while the backend is unavailable, because the worker
// may have been started during an outage. It returns a nil client if the run ends
// earlier.
func (r remote) open(ctx context.Context, options Options, index int, clock *clock) (*client, error) {
	for {
		c, err := openClient(ctx, options, index, clock, r)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // the run has ended before the backend was available
		case !errors.Is(err, leasing.ErrUnavailable):
			return nil, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}
