package torture

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/fencing"
)

// Options configure a run. Only Open is required.
type Options struct {
	// Open opens a client of the backend. It is called once for each worker, once
	// before them to see that all is well, and once more for the check that all is
	// free at the end; each client is closed.
	// See Share for a provider that is its own backend.
	Open func(ctx context.Context) (leasing.Provider, error) `json:"-"`
	// Plan is what goes wrong, for each worker by itself: its budgets and counts
	// too. The workers are the owners "worker-0", "worker-1" and so on. The zero
	// value is a run without faults.
	Plan chaos.Plan
	// Seed decides all that is left to chance, and what the plan leaves to
	// chance unless it has a seed itself. 0: a random one, which the report tells.
	Seed uint64

	Workers int           // default 8
	Names   int           // default 4; fewer names than workers make them compete
	For     time.Duration // default 10 s, and some more for the end
	// TTL of the leases. Default 2 s, or what the provider can do. A short one
	// makes many losses on a slow machine, which are no violations.
	TTL time.Duration
	// Intensity is how busy the workers are: their pauses and most of their holds are as many
	// times shorter. 20 makes some 10,000 requests a second in virtual time. Default 1.
	Intensity float64
	// Operations ends the faults and the work once the workers' managers have made so many
	// requests, if that is before For has passed. 0: no such end.
	Operations int
	// Manager configures the workers' managers, but for TTL and Owner. Its
	// RequestTimeout is a little more than the TTL by default, at least a second.
	Manager leasing.Options
	// Fence checks the tokens of the writes. Default: one in memory.
	Fence fencing.Fence `json:"-"`

	// Process, unless nil, makes each worker a process: the command is to call
	// WorkerMain first of all, mostly another copy of this program. Its standard
	// input and output are the run's. Some are stopped for up to two TTLs, some
	// killed, and others take their place. Only the numbers of Manager reach them,
	// and Open is for the check at the end.
	Process func() *exec.Cmd `json:"-"`

	// Disturb does to servers, networks and processes what a plan can't. It runs
	// beside the workers, reports what it does for the timeline, and when ctx ends
	// puts things right and returns.
	Disturb func(ctx context.Context, report func(Disturbance)) error `json:"-"`
	// AssumptionsBroken says that plan or Disturb break what the provider assumes,
	// such as that a server keeps its leases: see the package's documentation.
	AssumptionsBroken bool

	// Votes says that the backend is several servers that vote, as Redlock's. A claim may
	// have a majority there that it is not told of, so that others hear that it holds the
	// name, and lose it again when its votes are taken back. One that asks again while a server is away may be given a later token,
	// and a list may show a name twice.
	Votes bool

	// Repeatable makes names the same in each run. With a seed, in virtual time, the
	// history is the same, too, until the workers are stopped. It is for a backend that is new in each run.
	Repeatable bool

	// Patience is how long what should happen at once may take on this machine
	// before it is a violation. Default 5 s, and in virtual time 10 ms.
	Patience time.Duration
	// MaxSearchSteps bounds the search for a linear order, in steps for each name and
	// layer. Default 2 million, which take some seconds; few histories need many
	// more steps than they have operations.
	MaxSearchSteps int
	// Command is what a person types for the same run. The report shows it.
	Command string

	least    time.Duration // TTL
	infinite bool          // some leases are

	// Progress is told each second how the run goes.
	Progress func(Progress) `json:"-"`
}

// Disturbance is something that Options.Disturb does.
type Disturbance struct {
	Kind string // "node 2 killed"
	// For is how long it lasts, if that is known; 0 for a moment.
	For time.Duration
}

// Progress is how far a run is.
type Progress struct {
	Elapsed, For time.Duration
	Phase        string // "running", "closing", "waiting for names", "checking"
	Grants       int
	Losses       int
	Faults       int
	Operations   int
}

// inBubble says that time is that of a bubble of testing/synctest, where every moment is exact.
func inBubble() bool { return time.Now().Year() == 2000 }

// names are those that the workers compete for: others than those of other runs on the
// same backend, unless the run is to be repeated.
func (o Options) names() (names []string) {
	prefix := "torture/run"
	if !o.Repeatable {
		prefix = fmt.Sprintf("torture/%06x", rand.Uint32()&0xffffff)
	}
	width := len(fmt.Sprint(o.Names))
	for i := range o.Names {
		names = append(names, fmt.Sprintf("%s/%0*d", prefix, width, i+1))
	}
	return names
}

func (o Options) withDefaults() (Options, error) {
	o.Workers, o.Names = cmp.Or(o.Workers, 8), cmp.Or(o.Names, 4)
	o.For = cmp.Or(o.For, 10*time.Second)
	o.Intensity, o.MaxSearchSteps = cmp.Or(o.Intensity, 1), cmp.Or(o.MaxSearchSteps, 2_000_000)
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
		if inBubble() {
			o.Patience = 10 * time.Millisecond
		}
	}
	o.Seed = cmp.Or(o.Seed, rand.Uint64()>>32, 1)
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o, o.validate()
}

// most is the highest number of workers and of names.
const most = 9999

func (o Options) validate() error {
	for _, field := range []struct {
		ok    bool
		name  string
		value any
		want  string
	}{
		{o.Open != nil, "Open", nil, "a function that opens a provider"},
		{o.Workers >= 1 && o.Workers <= most, "Workers", o.Workers, "1 to 9999, or 0 for the default"},
		{o.Names >= 1 && o.Names <= most, "Names", o.Names, "1 to 9999, or 0 for the default"},
		{o.For >= 0, "For", o.For, "more than 0, or 0 for the default"},
		{o.TTL >= 0 && o.TTL != leasing.Infinite, "TTL", o.TTL, "a finite TTL, or 0 for the default"},
		{o.Intensity > 0, "Intensity", o.Intensity, "more than 0, or 0 for the default"},
		{o.Operations >= 0, "Operations", o.Operations, "more than 0, or 0 for no end"},
		{o.Patience >= 0, "Patience", o.Patience, "more than 0, or 0 for the default"},
		{o.MaxSearchSteps >= 0, "MaxSearchSteps", o.MaxSearchSteps, "more than 0, or 0 for the default"},
		{o.Manager.TTL == 0, "Manager.TTL", o.Manager.TTL, "0: Options.TTL is the TTL"},
		{o.Manager.Owner == "", "Manager.Owner", o.Manager.Owner, `"": the workers have owners of their own`},
	} {
		if !field.ok {
			return &leasing.InvalidError{Field: "Options." + field.name, Value: field.value, Want: field.want}
		}
	}
	return nil
}

// fit chooses what depends on the provider.
func (o Options) fit(c leasing.Capabilities) Options {
	if o.TTL == 0 {
		o.TTL = max(2*time.Second, c.MinTTL)
		if c.MaxTTL > 0 {
			o.TTL = min(o.TTL, c.MaxTTL)
		}
		if c.Granularity > 0 {
			o.TTL = (o.TTL + c.Granularity - 1) / c.Granularity * c.Granularity
		}
	}
	o.Manager.TTL, o.least = o.TTL, c.MinTTL
	// An infinite lease outlives a process that is killed, and one that is broken runs for
	// longer than its TTL. Its first renewal comes at once, in no certain order with others.
	o.infinite = c.Infinite && o.Process == nil && !o.Repeatable && !slices.ContainsFunc(o.Plan.Rules, func(r chaos.Rule) bool { return r.Fault.RunOut })
	// An odd time: in virtual time what ends together ends in no certain order.
	o.Manager.RequestTimeout = cmp.Or(o.Manager.RequestTimeout, max(time.Second, o.TTL)*107/100)
	return o
}

// closeTimeout is how long a manager may take to close, and more: it releases within
// a TTL.
func (o Options) closeTimeout() time.Duration {
	return 3*o.TTL + o.Manager.RequestTimeout + o.Patience
}

// margin is what the managers take off a TTL before they trust it: so far clocks may differ
// meanwhile.
func (o *Options) margin(ttl time.Duration) time.Duration {
	factor := cmp.Or(o.Manager.DriftFactor, 0.01) // the documented defaults
	return time.Duration(math.Ceil(float64(ttl)*factor)) + cmp.Or(o.Manager.DriftFloor, 2*time.Millisecond)
}

// Share makes an Options.Open of a provider that is its own backend, such as
// memlease's: all workers get it, and none closes it.
func Share(provider leasing.Provider) func(context.Context) (leasing.Provider, error) {
	return func(context.Context) (leasing.Provider, error) { return unclosed{provider}, nil }
}

type unclosed struct{ leasing.Provider }

func (unclosed) Close() error { return nil }

// As hands on all of the provider's abilities, of its own accord.
func (u unclosed) As(target any) bool { return forward(u.Provider, target) }
