package torture

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

// clock measures the time since the start of a run. The processes of a run share the start.
type clock struct{ start time.Time }

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at converts an instant of this process's clock.
func (c *clock) at(t time.Time) time.Duration { return t.Sub(c.start) }

// client is a worker's client of the backend. From the top it consists of the recorder of the
// worker's view, the faults, and the recorder of the backend's answers.
type client struct {
	*recorder
	lender *lender // the provider of the worker's managers, above the recorder
	faults *chaos.Provider
	wire   *recorder        // below the faults
	below  leasing.Provider // below wire
}

// open opens a client of the backend.
func (o Options) open(ctx context.Context) (leasing.Provider, error) {
	provider, err := o.Open(ctx)
	if err == nil && provider == nil {
		err = errors.New("Options.Open returned no provider")
	}
	return provider, err
}

// openClient opens a worker's client of the backend.
func openClient(ctx context.Context, o Options, worker int, clock *clock, journal journal) (*client, error) {
	provider, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	backend := &recorder{Provider: provider, layer: layerBackend, worker: worker, clock: clock, journal: journal, number: new(atomic.Int64)}
	plan := o.Plan
	plan.Seed = rand.NewPCG(cmp.Or(plan.Seed, o.Seed), uint64(worker)).Uint64() | 1 // each worker has its own faults
	faults, err := chaos.Wrap(backend, plan, chaos.Options{Owner: owner(worker), Observer: func(i chaos.Injection) {
		journal.enter(fault{At: clock.at(i.At), Worker: worker, Name: i.Name, Verb: string(i.Op), Kind: string(i.Kind), Rule: i.Rule})
	}})
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	seen := *backend
	seen.Provider, seen.layer, seen.held = faults, layerClient, new(sync.Map)
	lends := &lender{
		Provider: &seen, stingy: worker%4 == 1, worker: worker, clock: clock, journal: journal, patience: o.Patience, latest: map[string]numbered{},
	}
	return &client{&seen, lends, faults, backend, provider}, nil
}

// endFaults ends the faults. Faults that have begun go on.
func (c *client) endFaults() { _ = c.faults.Disable() } // it fails only for names of rules

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
