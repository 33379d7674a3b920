package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options configure a wrapper. The zero value is ready to use.
type Options struct {
	// Owner is the owner to assume for requests that don't name one, if all of them
	// come from the same owner. Rules match this owner, and random choices depend on
	// its name. If several wrappers have the same plan, give each a different Owner.
	Owner string
	// KeepOpen makes Close leave the wrapped provider open.
	KeepOpen bool
	// Observer is called with each fault when it happens, on the goroutine of
	// the request. It must be fast and safe for concurrent use, and must not
	// call the wrapper.
	Observer func(Injection)
	// OnDecision is called with the decision of each rule about each operation, on the
	// goroutine of the request, before a fault happens. If a rule skips the operation, its decision
	// has the reason. OnDecision must be fast and safe for concurrent use, and must not call the
	// wrapper. Default: no decisions are reported.
	OnDecision func(Decision)
	// Logger logs each fault, at level Info. Default: no logging.
	Logger *slog.Logger
	// MeterProvider gets the counter leasing.chaos.injected. Default:
	// OpenTelemetry's global provider.
	MeterProvider metric.MeterProvider
}

type intercepted = providerkit.Intercepted

// Provider is a leasing.Provider that passes requests to another provider and
// injects the faults of a plan. Make one with Wrap. It is safe for concurrent
// use.
//
// It has the optional abilities of the wrapped provider, and also injects faults
// into their requests. Look for them with abstractions.As: the methods always exist, but return
// leasing.ErrUnsupported if the wrapped provider lacks the ability.
//
// A fault may happen to a batch of renewals as a whole (OpRenewBatch), or to its items
// (OpRenew), which are answered together. A batch takes as long as the longest
// FaultDelay of its items. An item whose fault would wait before it fails gets an
// unknown outcome as soon as the other items are answered, so that it does not delay
// the batch. If no item of the batch is sent, the batch takes as long as the longest
// such wait. An item with a FaultCustom leaves the batch, and is renewed by a separate
// Renew. The batch waits for this fault as it does for a FaultDelay.
type Provider struct {
	*intercepted
	inner      abstractions.Provider
	caps       abstractions.Capabilities
	plan       Plan
	options    Options
	partitions bool // the plan has partitions
	injected   metric.Int64Counter

	inactive atomic.Bool // no fault may happen
	closed   atomic.Bool
	lifetime context.Context // ends with Close
	end      context.CancelFunc
	close    func() error // once

	mu       sync.Mutex // guards the fields below
	start    time.Time
	rules    []*rule
	limit    limiter
	owners   *recent[string, string]
	counts   counters[identity]
	failures counters[identity] // attempts of a request since its last answer
	report   Report
	settled  chan struct{} // closed when no late delivery is pending; nil if no Settle waits
	ending   bool          // no further goroutine is started
	workers  sync.WaitGroup
}

var (
	_ abstractions.Provider      = (*Provider)(nil)
	_ abstractions.BatchRenewer  = (*Provider)(nil)
	_ abstractions.Waiter        = (*Provider)(nil)
	_ abstractions.WaiterLister  = (*Provider)(nil)
	_ abstractions.Lister        = (*Provider)(nil)
	_ abstractions.Pinger        = (*Provider)(nil)
	_ abstractions.HistoryReader = (*Provider)(nil)
)

// Wrap returns a provider that injects the plan's faults into the requests to
// provider. The plan's time begins now. An error reports a mistake in the plan: see Plan.Validate.
func Wrap(provider abstractions.Provider, plan Plan, options Options) (*Provider, error) {
	if provider == nil {
		return nil, invalid("provider", nil, "a provider to wrap")
	}
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	plan = plan.complete()
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	p := &Provider{
		inner: provider, caps: provider.Capabilities(), plan: plan, options: options,
		owners: newRecent[string, string](2 * minRecent), injected: newCounter(options.MeterProvider),
	}
	p.intercepted = providerkit.InterceptUnless(provider, p.bypasses, p.handle)
	for _, r := range plan.Rules {
		p.partitions = p.partitions || r.Fault.Kind == FaultPartitioned
		p.caps.HeedsContext = p.caps.HeedsContext && !r.Fault.Heedless
		p.caps.ReadsMayLag = p.caps.ReadsMayLag || r.Fault.Kind == FaultStaleRead
	}
	p.Reset()
	p.lifetime, p.end = context.WithCancel(context.Background())
	p.close = sync.OnceValue(p.shutDown)
	return p, nil
}

// Reset returns the wrapper to its state after Wrap: counters, attempts, budgets, rates,
// the report, the answers for stale reads, the set of disabled rules, and the plan's time. The same
// operations then have the same faults as before. Pending late deliveries still arrive, so call
// Settle before Reset. Reset keeps the owners of claims, and the state of a CustomFault or
// CustomPolicy. Reset is safe for concurrent use.
func (p *Provider) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending := p.report.Late.Pending
	p.start, p.report = time.Now(), newReport(p.plan)
	p.report.Late.Pending = pending
	p.limit = newLimiter(p.plan.Budget, p.plan.Rate)
	p.counts, p.failures = newCounters[identity](), newCounters[identity]()
	p.rules = nil
	for _, r := range p.plan.Rules {
		p.rules = append(p.rules, newRule(r))
	}
	slices.SortStableFunc(p.rules, func(a, b *rule) int { return cmp.Compare(b.priority(), a.priority()) })
	p.inactive.Store(len(p.rules) == 0)
}

// complete returns the plan with names for all its rules, and slices of its own.
func (p Plan) complete() Plan {
	taken := map[string]bool{}
	for _, r := range p.Rules {
		taken[r.Name] = true
	}
	rules := make([]Rule, len(p.Rules))
	for i, r := range p.Rules {
		if r.Name == "" {
			r.Name = string(r.Fault.Kind)
			for n := 2; taken[r.Name]; n++ {
				r.Name = fmt.Sprintf("%s-%d", r.Fault.Kind, n)
			}
			taken[r.Name] = true
		}
		rules[i] = r
	}
	p.Rules = rules
	return p
}

// As reports the wrapped provider's optional abilities from package abstractions. It
// hides other abilities, since no fault would happen to their calls.
func (p *Provider) As(target any) bool { return providerkit.Lend(p, p.inner, target) }

// Capabilities returns the capabilities of the wrapped provider. Fault.Heedless and FaultStaleRead
// change them: with FaultStaleRead, reads may lag.
func (p *Provider) Capabilities() abstractions.Capabilities { return p.caps }

// Plan returns the plan with the names of all its rules, including default names.
func (p *Provider) Plan() Plan { return p.plan }

// closeTimeout bounds how long Close waits for goroutines.
const closeTimeout = 10 * time.Second

// Close drops pending late deliveries, ends calls that hang, and waits for the
// wrapper's goroutines for up to 10 s. Then it closes the wrapped provider,
// unless Options.KeepOpen is set. A second Close returns the same error.
func (p *Provider) Close() error { return p.close() }

func (p *Provider) shutDown() error {
	p.closed.Store(true)
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	p.end()
	err := p.join()
	if !p.options.KeepOpen {
		err = errors.Join(err, p.inner.Close())
	}
	return err
}

func (p *Provider) join() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.workers.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("chaos: close: late requests to the provider have not ended within %v", closeTimeout)
	}
}

// spawn starts a goroutine that Close waits for. It reports false after Close.
func (p *Provider) spawn(work func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return false
	}
	p.workers.Go(work)
	return true
}

// Disable stops the named rules. Without names it stops the whole plan, which then no
// longer counts operations. Pending late deliveries still arrive: see Settle. An
// unknown name is an error.
func (p *Provider) Disable(rules ...string) error { return p.setDisabled(true, rules) }

// Enable undoes Disable. Without names it restarts the plan, except for rules
// that were disabled by name.
func (p *Provider) Enable(rules ...string) error { return p.setDisabled(false, rules) }

func (p *Provider) setDisabled(disabled bool, names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(names) == 0 {
		p.inactive.Store(disabled || len(p.rules) == 0)
		return nil
	}
	chosen := make([]*rule, len(names))
	for i, name := range names {
		at := slices.IndexFunc(p.rules, func(r *rule) bool { return r.Name == name })
		if at < 0 {
			return invalid("rules", name, "the name of a rule of the plan")
		}
		chosen[i] = p.rules[at]
	}
	for _, r := range chosen {
		r.disabled = disabled
	}
	return nil
}
