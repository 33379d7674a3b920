package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// client is a worker's client of the backend. From top to bottom it consists of the recorder
// of the answers that the worker sees, the faults, and the recorder of the backend's answers.
type client struct {
	*recorder
	states  *stateChecker // the provider of the worker's managers, above the recorder
	faults  *chaos.Provider
	backend *recorder        // below the faults
	below   leasing.Provider // below backend
}

// openClient opens a worker's client of the backend.
func openClient(ctx context.Context, o Options, worker int, clock *clock, journal history.Journal) (*client, error) {
	provider, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	backend := recorder{layer: history.LayerBackend, worker: worker, clock: clock, journal: journal, number: new(atomic.Int64)}.above(provider)
	plan := o.Plan
	plan.Seed = rand.NewPCG(cmp.Or(plan.Seed, o.Seed), uint64(worker)).Uint64() | 1 // each worker has its own faults
	faults, err := chaos.Wrap(backend, plan, chaos.Options{Owner: owner(worker), Observer: func(i chaos.Injection) {
		journal.Enter(history.Fault{At: clock.at(i.At), Worker: worker, Name: i.Name, Verb: string(i.Op), Kind: string(i.Kind), Rule: i.Rule})
	}})
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	seen := *backend
	seen.layer, seen.held = history.LayerClient, new(sync.Map)
	top := seen.above(faults)
	states := &stateChecker{shortens: worker%4 == 1, worker: worker, clock: clock, journal: journal, patience: o.Patience, latest: map[string]numberedState{}}
	states.Intercepted = providerkit.Intercept(top, states.handle)
	return &client{top, states, faults, backend, provider}, nil
}

// endFaults prevents new faults. Faults that have begun continue.
func (c *client) endFaults() { _ = c.faults.Disable() } // Disable fails only for unknown rules

func owner(index int) string { return fmt.Sprint("worker-", index) }
