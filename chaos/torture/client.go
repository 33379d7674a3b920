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

// clock tells the time since the start of a run. Processes of a run share it.
type clock struct{ start time.Time }

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at is the time of an instant that this process has read from its clock.
func (c *clock) at(t time.Time) time.Duration { return t.Sub(c.start) }

// client is a worker's client of the backend: what the worker sees, the faults below
// that, and what the backend answers below these.
type client struct {
	*recorder
	lender *lender // what the worker's managers ask; it asks the recorder
	faults *chaos.Provider
	wire   *recorder        // below the faults
	below  leasing.Provider // and below their record
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
	plan.Seed = rand.NewPCG(cmp.Or(plan.Seed, o.Seed), uint64(worker)).Uint64() | 1 // each has faults of its own
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

// endFaults ends the faults. Those under way go on.
func (c *client) endFaults() { _ = c.faults.Disable() } // fails for names of rules only

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
