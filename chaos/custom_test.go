package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

var errDiskFull = errors.New("disk full")

// diskFull is a fault from a user's module: the disk is full, before or after the effect.
type diskFull struct{ after bool }

func (f diskFull) Inject(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
	if f.after {
		_ = next(ctx)
	}
	return errDiskFull
}

// coin is a policy from a user's module. It picks half of the operations, at random.
type coin struct{}

func (coin) Picks(o chaos.Operation) bool { return o.Rand.IntN(2) == 0 }

// fault implements chaos.CustomFault by a function.
type fault func(ctx context.Context, o chaos.Operation, next func(context.Context) error) error

func (f fault) Inject(ctx context.Context, o chaos.Operation, next func(context.Context) error) error {
	return f(ctx, o, next)
}

// passing is a fault that only calls next.
var passing = fault(func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error { return next(ctx) })

// policy implements chaos.CustomPolicy by a function.
type policy func(o chaos.Operation) bool

func (p policy) Picks(o chaos.Operation) bool { return p(o) }

// customRule returns a rule for a custom fault.
func customRule(f chaos.CustomFault, ops ...chaos.Op) chaos.Rule {
	return chaos.Rule{Name: "mine", Fault: chaos.Fault{Kind: chaos.FaultCustom, Custom: f}, Match: chaos.Match{Ops: ops}}
}

// customs are custom faults, with the result that each has for any operation.
var customs = []struct {
	name    string
	fault   fault
	sent    []time.Duration
	returns time.Duration
	is, not []error
	panics  int
}{
	{
		name:  "fails before the effect",
		fault: func(context.Context, chaos.Operation, func(context.Context) error) error { return errDiskFull },
		is:    append(unknown, errDiskFull), not: definite,
	},
	{
		name: "promises that nothing was applied",
		fault: func(context.Context, chaos.Operation, func(context.Context) error) error {
			return fmt.Errorf("%w: %w", leasing.ErrDenied, errDiskFull)
		},
		is: []error{leasing.ErrDenied, chaos.ErrInjected, errDiskFull}, not: []error{leasing.ErrUnavailable},
	},
	{
		name:  "fails after the effect",
		fault: diskFull{true}.Inject,
		sent:  []time.Duration{0}, is: append(unknown, errDiskFull), not: definite,
	},
	{
		name: "says after the effect that there was none",
		fault: func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			_ = next(ctx)
			return leasing.ErrDenied
		},
		sent: []time.Duration{0}, is: unknown, not: definite,
	},
	{
		name: "waits, and lets the operation pass",
		fault: func(context.Context, chaos.Operation, func(context.Context) error) error {
			time.Sleep(second)
			return nil
		},
		sent: []time.Duration{second}, returns: second,
	},
	{
		name: "waits after the effect",
		fault: func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			err := next(ctx)
			time.Sleep(second)
			return err
		},
		sent: []time.Duration{0}, returns: second,
	},
	{
		name: "applies the operation twice",
		fault: func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			return errors.Join(next(ctx), next(ctx))
		},
		sent: []time.Duration{0, 0},
	},
	{
		name: "waits for the end of the context",
		fault: func(ctx context.Context, _ chaos.Operation, _ func(context.Context) error) error {
			<-ctx.Done()
			return leasing.ErrDenied
		},
		returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite,
	},
	{
		name:   "panics before the effect",
		fault:  func(context.Context, chaos.Operation, func(context.Context) error) error { panic("bug") },
		is:     unknown,
		not:    definite,
		panics: 1,
	},
	{
		name: "panics after the effect",
		fault: func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			_ = next(ctx)
			panic("bug")
		},
		sent: []time.Duration{0}, is: unknown, not: definite, panics: 1,
	},
	{
		name: "returns while the operation is under way",
		fault: func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			started := make(chan struct{})
			go func() { close(started); _ = next(ctx) }()
			<-started
			synctest.Wait()
			return nil
		},
		sent: []time.Duration{0},
	},
}

// TestTrap_T273_AFaultOfOnesOwnKeepsTheContract checks every operation, alone and in a batch.
func TestTrap_T273_AFaultOfOnesOwnKeepsTheContract(t *testing.T) {
	for _, custom := range customs {
		for _, verb := range verbs {
			t.Run(custom.name+" "+verb.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, b := wrapped(t, customRule(custom.fault, verb.op))
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					_, err := b.Provider.Acquire(ctx, claim("n", "id"))
					require.NoError(t, err)
					start := time.Now()
					err = verb.call(ctx, p, b)
					assert.Equal(t, custom.returns, time.Since(start), "when the caller gets its answer")
					if len(custom.is) == 0 {
						assert.NoError(t, err)
					}
					for _, target := range custom.is {
						assert.ErrorIs(t, err, target)
					}
					for _, target := range custom.not {
						assert.NotErrorIs(t, err, target)
					}
					assert.Equal(t, custom.sent, b.times(verb.op), "when the operation reaches the backend")
					assert.Equal(t, custom.panics, p.Report().Panics)
					assert.Equal(t, 1, p.Report().ByKind[chaos.FaultCustom])
				})
			})
		}
	}
}

// TestTrap_T273_AFaultOfOnesOwnHidesNoAnswer: a fault that only calls next changes neither the
// backend's error nor its answer.
func TestTrap_T273_AFaultOfOnesOwnHidesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swallow := fault(func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
			_ = next(ctx)
			return nil
		})
		for _, f := range []fault{swallow, passing} {
			p, _ := wrapped(t, customRule(f))
			grant, err := p.Acquire(t.Context(), claim("n", "id"))
			require.NoError(t, err)
			assert.Equal(t, "id", grant.ID)
			_, err = p.Acquire(t.Context(), claim("n", "another"))
			require.ErrorIs(t, err, leasing.ErrHeld)
			require.NotErrorIs(t, err, chaos.ErrInjected, "it is the backend's own word")
		}
	})
}

// TestTrap_T273_ARefusalAfterAnEffectIsUnknown: the first call to next acquires the name, and the
// second is refused, so the outcome is unknown.
func TestTrap_T273_ARefusalAfterAnEffectIsUnknown(t *testing.T) {
	b := &refuser{Provider: memlease.New(memlease.Options{})}
	p, err := chaos.Wrap(b, chaos.Plan{Rules: []chaos.Rule{customRule(fault(func(ctx context.Context, _ chaos.Operation, next func(context.Context) error) error {
		_ = next(ctx)
		b.refuses = true
		return next(ctx)
	}))}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Acquire(t.Context(), claim("n", "id"))
	require.ErrorIs(t, err, leasing.ErrUnavailable)
	require.NotErrorIs(t, err, leasing.ErrDenied)
}

// refuser is a provider that denies access.
type refuser struct {
	leasing.Provider
	refuses bool
}

func (r *refuser) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if r.refuses {
		return abstractions.Grant{}, leasing.ErrDenied
	}
	return r.Provider.Acquire(ctx, req)
}

// TestTrap_T273_AnErrorNamesItsClassOnce: the text of an error contains that of leasing.ErrUnavailable only once.
func TestTrap_T273_AnErrorNamesItsClassOnce(t *testing.T) {
	p, _ := wrapped(t, customRule(fault(func(context.Context, chaos.Operation, func(context.Context) error) error {
		return fmt.Errorf("%w: %w", leasing.ErrUnavailable, errDiskFull)
	})))
	require.EqualError(t, p.Ping(t.Context()), `leasing: ping (memory): backend unavailable: disk full (injected by chaos: rule "mine", custom)`)
}

// TestTrap_T273_TheCauseOfAContextIsNoAnswer: the cause may be the error of another lease, so it does not become the
// answer.
func TestTrap_T273_TheCauseOfAContextIsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p, b := wrapped(t, customRule(fault(func(ctx context.Context, _ chaos.Operation, _ func(context.Context) error) error {
		cancel(leasing.ErrLost)
		return context.Cause(ctx)
	}), chaos.OpRenew))
	_, err := p.Acquire(ctx, claim("n", "id"))
	require.NoError(t, err)
	_, err = p.Renew(ctx, b.renewal("n", "id"))
	require.ErrorIs(t, err, leasing.ErrUnavailable)
	require.NotErrorIs(t, err, leasing.ErrLost)
}

// TestTrap_T273_NextEndsWithTheFault: after the fault has returned, a call to next has no effect.
func TestTrap_T273_NextEndsWithTheFault(t *testing.T) {
	var kept func(context.Context) error
	p, b := wrapped(t, customRule(fault(func(_ context.Context, _ chaos.Operation, next func(context.Context) error) error {
		kept = next
		return errDiskFull
	})))
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.ErrorIs(t, err, errDiskFull)
	require.ErrorIs(t, kept(t.Context()), leasing.ErrClosed)
	require.Empty(t, b.times(chaos.OpAcquire))
}

// panicking is a provider whose Renew panics.
type panicking struct{ *memlease.Provider }

func (panicking) Renew(context.Context, abstractions.RenewRequest) (abstractions.Grant, error) {
	panic("provider")
}

// TestTrap_T274_APanicOfTheTestEndsNoProcess: the operation continues after a panic of a policy, an observer or the
// logger.
func TestTrap_T274_APanicOfTheTestEndsNoProcess(t *testing.T) {
	p, _ := wrappedWith(t, chaos.Options{
		Observer:   func(chaos.Injection) { panic("observer") },
		OnDecision: func(chaos.Decision) { panic("decision") },
		Logger:     slog.New(handler{slog.DiscardHandler}),
	},
		chaos.Rule{Name: "policy", Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Custom: policy(func(chaos.Operation) bool { panic("policy") })}},
		chaos.Rule{Name: "delay", Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}},
	)
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.NoError(t, err, "a policy that panics picks nothing")
	report := p.Report()
	assert.Equal(t, 5, report.Panics, "of the policy, two decisions, the log, and the observer")
	assert.Contains(t, report.String(), "panics: 5")
}

// handler is a slog.Handler that panics.
type handler struct{ slog.Handler }

func (handler) Enabled(context.Context, slog.Level) bool { panic("log") }

// TestTrap_T274_APanicOfTheProviderIsItsOwn: a fault does not stop a panic of the provider.
func TestTrap_T274_APanicOfTheProviderIsItsOwn(t *testing.T) {
	p, err := chaos.Wrap(panicking{memlease.New(memlease.Options{})}, chaos.Plan{Rules: []chaos.Rule{customRule(passing)}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	grant, err := p.Acquire(t.Context(), claim("n", "id"))
	require.NoError(t, err)
	req := abstractions.RenewRequest{Name: "n", ID: "id", Token: grant.Token, TTL: time.Minute}
	require.PanicsWithValue(t, "provider", func() { _, _ = p.Renew(t.Context(), req) })
	batch := []abstractions.RenewRequest{req}
	require.PanicsWithValue(t, "provider", func() { _, _ = p.RenewBatch(t.Context(), batch) }, "on the goroutine of the request")
}

// TestTrap_T274_AFaultThatEndsItsGoroutine: if a fault ends its goroutine, its item of the batch has an unknown
// outcome.
func TestTrap_T274_AFaultThatEndsItsGoroutine(t *testing.T) {
	p, b := wrapped(t, customRule(fault(func(context.Context, chaos.Operation, func(context.Context) error) error {
		runtime.Goexit()
		return nil
	}), chaos.OpRenew))
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.NoError(t, err)
	results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n", "id")})
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, leasing.ErrUnavailable)
}

// journal is a fault and a policy that draw random numbers and record the results.
type journal struct {
	mu    sync.Mutex
	lines map[string]string
}

func (j *journal) note(o chaos.Operation, what string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines[fmt.Sprint(what, " ", o.Rule, o.Op, o.Name, o.Owner, o.Nth)] = fmt.Sprint(args...)
}

func (j *journal) Picks(o chaos.Operation) bool {
	picks := o.Rand.Float64() < .5
	j.note(o, "picks", picks)
	return picks
}

func (j *journal) Inject(ctx context.Context, o chaos.Operation, next func(context.Context) error) error {
	delay := time.Duration(o.Rand.IntN(1000)) * time.Microsecond
	after := o.Rand.IntN(2) == 0
	j.note(o, "injects", delay, after)
	time.Sleep(delay)
	if after {
		_ = next(ctx)
	}
	return errDiskFull
}

// compete lets three owners acquire leases of their own at the same time, and returns the results
// of each operation's fault and policy.
func compete(t *testing.T, seed uint64) map[string]string {
	j := &journal{lines: map[string]string{}}
	rule := customRule(j)
	rule.When.Custom = j
	p, err := chaos.Wrap(newBackend(), chaos.Plan{Seed: seed, Rules: []chaos.Rule{rule}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	var owners sync.WaitGroup
	for owner := range 3 {
		owners.Go(func() {
			for round := range 10 {
				name := fmt.Sprintf("%d/%d", owner, round%2)
				req := claim(name, abstractions.NewID())
				req.Owner = fmt.Sprint("owner-", owner)
				grant, _ := p.Acquire(t.Context(), req)
				renewal := abstractions.RenewRequest{Name: name, ID: req.ID, Token: max(grant.Token, 1), TTL: time.Minute}
				_, _ = p.Renew(t.Context(), renewal)
				_, _ = p.RenewBatch(t.Context(), []abstractions.RenewRequest{renewal})
				time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond) // a different order in each run
			}
		})
	}
	owners.Wait()
	return j.lines
}

// TestTrap_T275_TheSeedRepeatsFaultsAndPoliciesOfOnesOwn: a seed repeats the results, whatever the
// order of the goroutines.
func TestTrap_T275_TheSeedRepeatsFaultsAndPoliciesOfOnesOwn(t *testing.T) {
	first := compete(t, 7)
	fates := map[string]bool{}
	for _, fate := range first {
		fates[fate] = true
	}
	require.Greater(t, len(fates), 20, "each operation has a chance of its own")
	require.Equal(t, first, compete(t, 7))
	require.NotEqual(t, first, compete(t, 8), "another seed")
}

// TestTrap_T275_FaultAndPolicyHaveChancesOfTheirOwn: the random numbers of the fault and the
// policy are independent.
func TestTrap_T275_FaultAndPolicyHaveChancesOfTheirOwn(t *testing.T) {
	var picked, both int
	var last float64
	rule := customRule(fault(func(_ context.Context, o chaos.Operation, _ func(context.Context) error) error {
		picked++
		if o.Rand.Float64() < .5 {
			both++
		}
		return nil
	}))
	rule.When.Custom = policy(func(o chaos.Operation) bool { last = o.Rand.Float64(); return last < .5 })
	p, _ := wrapped(t, rule)
	for i := range 1000 {
		_, _ = p.Inspect(t.Context(), abstractions.InspectRequest{Name: fmt.Sprint(i)})
	}
	assert.InDelta(t, 500, picked, 80)
	assert.InDelta(t, picked/2, both, 60)
}

// TestTrap_T276_CodeInAPlanIsNotLostInJSON: json.Marshal refuses a plan with code, and the error names the field and
// the type.
func TestTrap_T276_CodeInAPlanIsNotLostInJSON(t *testing.T) {
	for want, rule := range map[string]chaos.Rule{
		`Fault.Custom "chaos_test.diskFull"`: customRule(diskFull{}),
		`When.Custom "chaos_test.coin"`:      {Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Custom: coin{}}},
	} {
		for _, value := range []any{rule, chaos.Plan{Rules: []chaos.Rule{rule}}, &rule} {
			text, err := json.Marshal(value)
			require.ErrorIs(t, err, leasing.ErrInvalid, "%s", text)
			require.ErrorContains(t, err, want)
		}
	}
}

// TestTrap_T279_AFaultOfOnesOwnInABatch: the fault happens to its items concurrently, and the
// other items are sent as a batch.
func TestTrap_T279_AFaultOfOnesOwnInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fault(func(ctx context.Context, o chaos.Operation, next func(context.Context) error) error {
			time.Sleep(second)
			if strings.HasPrefix(o.Name, "lost/") {
				_ = next(ctx)
				return errDiskFull
			}
			return next(ctx)
		})
		rule := customRule(slow, chaos.OpRenew)
		rule.When.Custom = policy(func(o chaos.Operation) bool { return !strings.HasPrefix(o.Name, "good/") })
		p, b := wrapped(t, rule)
		var reqs []abstractions.RenewRequest
		for _, name := range []string{"good/1", "lost/1", "slow/1", "good/2", "lost/2"} {
			_, err := p.Acquire(t.Context(), claim(name, "id"))
			require.NoError(t, err)
			reqs = append(reqs, b.renewal(name, "id"))
		}
		start := time.Now()
		results, err := p.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		assert.Equal(t, second, time.Since(start), "the faults happen at a time")
		for i, result := range results {
			if strings.HasPrefix(reqs[i].Name, "lost/") {
				require.ErrorIs(t, result.Err, errDiskFull)
				require.ErrorIs(t, result.Err, leasing.ErrUnavailable)
				continue
			}
			require.NoError(t, result.Err)
			assert.Equal(t, reqs[i].ID, result.Grant.ID)
		}
		assert.Len(t, b.times(chaos.OpRenewBatch), 1)
		assert.Len(t, b.times(chaos.OpRenew), 5, "each renewal reaches the backend once")
		assert.Equal(t, map[string]int{"lost/1": 1, "lost/2": 1, "slow/1": 1}, p.Report().ByName)
	})
}
