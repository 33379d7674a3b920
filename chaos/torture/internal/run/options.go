package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/fencing"
)

// Options configure a run. Only Open is required.
type Options struct {
	// Open opens a client of the backend. It is called once for each worker, once at
	// the start for a check that the backend works, and once at the end for a check
	// that all names are free. Each client is closed. See Share for a provider that is
	// its own backend.
	Open func(ctx context.Context) (leasing.Provider, error) `json:"-"`
	// Plan says which faults happen. It applies to each worker separately, including its
	// budgets and counts. The workers' owner labels are "worker-0", "worker-1" and so on. The
	// zero value is a run without faults.
	Plan chaos.Plan `json:"plan"`
	// Seed determines all random choices of the run, and those of the plan unless
	// Plan.Seed is set. 0 means a random seed, which the report shows.
	Seed uint64 `json:"seed"`

	Workers int           `json:"workers"` // default 8
	Names   int           `json:"names"`   // default 4; fewer names than workers make them compete
	For     time.Duration `json:"for"`     // default 10 s; the end of the run takes longer
	// TTL of the leases. Default 2 s, or the nearest TTL that the provider grants. With
	// a short TTL a slow machine loses many leases; such losses are not violations.
	TTL time.Duration `json:"ttl"`
	// Intensity divides the workers' pauses and most of their hold times. 20 makes some
	// 10,000 requests per second of virtual time. Default 1.
	Intensity float64 `json:"intensity"`
	// Operations, unless 0, ends the faults and the work once the workers' managers have
	// made that many requests, even if For has not passed.
	Operations int `json:"operations"`
	// Manager configures the workers' managers, except for TTL and Owner.
	// RequestTimeout defaults to a little more than the TTL, at least 1 s.
	Manager leasing.Options `json:"manager"`
	// Fence checks the tokens of the writes. Default: a fence in memory.
	Fence fencing.Fence `json:"-"`

	// Process, unless nil, runs each worker as a process. The command, usually another
	// copy of this program, must call WorkerMain before any other work. The run uses
	// the process's standard input and output. Some processes are stopped for up to two
	// TTLs; others are killed and replaced. Only the numeric fields of Manager apply to
	// worker processes. Open is then used only for the checks at the start and the end.
	Process func() *exec.Cmd `json:"-"`

	// Disturb causes faults in servers, networks and processes, which a plan cannot reach. It runs
	// alongside the workers and reports its actions for the timeline. When ctx ends it must
	// undo its faults and return.
	Disturb func(ctx context.Context, report func(Disturbance)) error `json:"-"`
	// AssumptionsBroken says that Plan or Disturb violates an assumption of the provider, such as
	// that a server keeps its leases: see the documentation of package torture.
	AssumptionsBroken bool `json:"assumptions_broken"`

	// Votes says that the backend consists of voting servers, like Redlock. There a claim may have a majority of votes without
	// receiving the replies: other claims see it as the holder until the votes are withdrawn. A claim that repeats its acquire
	// while a server is unreachable may get a later token, and a listing may contain a name twice.
	Votes bool `json:"votes"`

	// Repeatable uses the same lease names in each run. With the same seed, in virtual time, the history
	// is also the same until the workers are stopped. Use it only with a fresh backend.
	Repeatable bool `json:"repeatable"`

	// Patience is the time allowed for actions that should happen at once: taking
	// longer is a violation. Default 5 s, and in virtual time 10 ms.
	Patience time.Duration `json:"patience"`
	// MaxSearchSteps bounds the search for a linear order, in steps for each name and
	// layer. Default 2 million, which take some seconds; few histories need many
	// more steps than they have operations.
	MaxSearchSteps int `json:"max_search_steps"`
	// Command is the command line, shown in the report, that repeats the run.
	Command string `json:"command"`

	least    time.Duration // the provider's shortest TTL
	infinite bool          // some leases are infinite

	// Progress, unless nil, is called every second.
	Progress func(history.Progress) `json:"-"`
}

// Disturbance is one action of Options.Disturb.
type Disturbance struct {
	Kind string // "node 2 killed"
	// For is its duration; 0 if the action is momentary, or its duration is unknown.
	For time.Duration
}

// most is the highest number of workers and of names.
const most = 9999

// WithDefaults fills in the defaults that do not depend on the provider.
func (o Options) WithDefaults() (Options, error) {
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
		o.Progress = func(history.Progress) {}
	}
	return o, o.validate()
}

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

// fit sets the options that depend on the provider.
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
	// Infinite leases are left out in a run with processes, because those of a killed process
	// would never run out; in a run with breaks that let a lease run out, because an infinite
	// lease takes longer than the TTL to do so; and in a repeatable run, because their first
	// renewal is due at once, in a random order with those of other leases.
	o.infinite = c.Infinite && o.Process == nil && !o.Repeatable && !slices.ContainsFunc(o.Plan.Rules, func(r chaos.Rule) bool { return r.Fault.RunOut })
	// The factor is unusual, so that no other timer fires in the same instant of virtual time, in random order.
	o.Manager.Tuning.RequestTimeout = cmp.Or(o.Manager.Tuning.RequestTimeout, max(time.Second, o.TTL)*107/100)
	return o
}

// Limits returns the limits of the checks. The defaults are those that package leasing documents.
func (o *Options) Limits(lateness leasing.Lateness, pushes bool) check.Limits {
	m := o.Manager
	l := check.Limits{
		Workers: o.Workers, Patience: o.Patience, RequestTimeout: m.Tuning.RequestTimeout, MaxPoll: cmp.Or(m.Tuning.MaxPoll, time.Second),
		DriftFactor: cmp.Or(m.Tuning.DriftFactor, 0.01), DriftFloor: cmp.Or(m.Tuning.DriftFloor, 2*time.Millisecond), SearchSteps: o.MaxSearchSteps,
		Lateness: lateness, Pushes: pushes, Votes: o.Votes, AssumptionsBroken: o.AssumptionsBroken,
	}
	if m.RenewCadence == 0 && !m.NoAutoRenew {
		l.RenewFraction = cmp.Or(m.RenewFraction, 0.6)
	}
	for _, r := range o.Plan.Rules {
		l.Heedless = l.Heedless || r.Fault.Heedless
		l.Reach = max(l.Reach, r.Fault.Delay+r.Fault.Jitter)
	}
	l.Reach += 2 * l.RequestTimeout
	return l
}

// closeTimeout returns more time than a manager may take to close. A manager releases its
// leases within a TTL.
func (o Options) closeTimeout() time.Duration {
	return 3*o.TTL + o.Manager.Tuning.RequestTimeout + o.Patience
}

// settling returns the longest time that clean-ups can take.
func settling(o Options) time.Duration { return 2 * (o.TTL + o.Manager.Tuning.RequestTimeout) }

// names returns the names that the workers compete for. They differ from the names of other runs
// on the same backend, unless Repeatable is set.
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

// open opens a client of the backend.
func (o Options) open(ctx context.Context) (leasing.Provider, error) {
	provider, err := o.Open(ctx)
	if err == nil && provider == nil {
		err = errors.New("Options.Open returned no provider")
	}
	return provider, err
}
