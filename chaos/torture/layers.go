package torture

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

// layers are a worker's client from the top to the bottom: what it sees, the
// faults, and what the backend answers.
type layers struct {
	client *recorder
	faults *chaos.Provider
}

// identity is what tells the IDs and names of this run from those of others on
// the same backend.
func identity(o Options) (run uint64, names []string) {
	run = o.Seed
	prefix := "torture/run"
	if !o.Repeatable {
		run = rand.Uint64()
		prefix = fmt.Sprintf("torture/%06x", run&0xffffff)
	}
	width := len(fmt.Sprint(o.Names))
	for i := range o.Names {
		names = append(names, fmt.Sprintf("%s/%0*d", prefix, width, i+1))
	}
	return run, names
}

// client opens a client of the backend.
func (o Options) client(ctx context.Context) (leasing.Provider, error) {
	provider, err := o.Open(ctx)
	if err == nil && provider == nil {
		err = errors.New("Options.Open returned no provider")
	}
	return provider, err
}

// openLayers opens a client of the backend with all layers.
func openLayers(ctx context.Context, o Options, run uint64, worker int, clock *clock, journal journal) (*layers, error) {
	provider, err := o.client(ctx)
	if err != nil {
		return nil, err
	}
	layer := recorder{
		layer: LayerBackend, worker: worker, clock: clock, journal: journal,
		claims: newClaims(run, worker), number: new(atomic.Int64),
	}
	backend, client := layer, layer
	backend.Provider = provider
	plan := o.Plan
	plan.Seed = seedFor(worker, plan.Seed, o.Seed)
	faults, err := chaos.Wrap(&backend, plan, chaos.Options{Owner: owner(worker), Observer: injected(worker, clock, journal)})
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	client.Provider, client.layer, client.rename = faults, LayerClient, true
	return &layers{client: &client, faults: faults}, nil
}

// seedFor gives each worker faults of its own.
func seedFor(worker int, plan, run uint64) uint64 {
	if plan == 0 {
		plan = run
	}
	h := fnv.New64a()
	fmt.Fprint(h, plan, worker)
	return max(h.Sum64(), 1)
}

// calm ends the faults. Those under way go on.
func (l *layers) calm() { _ = l.faults.Disable() } // fails for names of rules only

// injected enters the faults of a worker.
func injected(worker int, clock *clock, journal journal) func(chaos.Injection) {
	return func(i chaos.Injection) {
		journal.enter(entry{Fault: &Fault{
			At: clock.at(i.At), Worker: worker, Name: i.Name, Verb: string(i.Op), Kind: string(i.Kind), Rule: i.Rule,
		}})
	}
}
