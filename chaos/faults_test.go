package chaos_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

const (
	second = time.Second
	bound  = 10 * time.Second // the timeout of a call
)

// promise describes the effect of a fault on each operation to which it can happen.
type promise struct {
	fault   chaos.Fault
	except  []chaos.Op      // operations on which the effect differs: other tests cover them
	sent    []time.Duration // when the operation reaches the backend; empty for never
	returns time.Duration   // when the caller gets its answer
	is, not []error         // errors that the answer must match, and errors that it must not match; if "is" is empty, the error must be nil
}

var (
	unknown  = []error{leasing.ErrUnavailable, chaos.ErrInjected}
	definite = []error{leasing.ErrThrottled, leasing.ErrDenied, leasing.ErrNotSetUp, leasing.ErrClosed}
	waitOps  = []chaos.Op{chaos.OpWait}
)

var promises = []promise{
	{fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second}, sent: []time.Duration{second}, returns: second},
	{fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second, After: true}, sent: []time.Duration{0}, returns: second},
	{fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 2 * bound}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 2 * bound, After: true}, sent: []time.Duration{0}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultError}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureUnavailable}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied}, is: []error{leasing.ErrDenied, chaos.ErrInjected}, not: []error{leasing.ErrUnavailable}},
	{fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureNotSetUp}, is: []error{leasing.ErrNotSetUp, chaos.ErrInjected}, not: []error{leasing.ErrUnavailable}},
	{fault: chaos.Fault{Kind: chaos.FaultError, After: true}, sent: []time.Duration{0}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultThrottle, RetryAfter: 3 * second}, is: []error{leasing.ErrThrottled, leasing.ErrUnavailable, chaos.ErrInjected}},
	{fault: chaos.Fault{Kind: chaos.FaultHang}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultHang, Delay: second}, returns: second, is: unknown, not: append(definite, context.DeadlineExceeded)},
	{fault: chaos.Fault{Kind: chaos.FaultHang, After: true}, sent: []time.Duration{0}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultRequestLost}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultRequestLost, Delay: second}, returns: second, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultReplyLost}, sent: []time.Duration{0}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultReplyLost, Delay: second}, sent: []time.Duration{0}, returns: second, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}, except: waitOps, sent: []time.Duration{second}, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultAppliedTwice}, except: waitOps, sent: []time.Duration{0, 0}},
	{fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: second}, except: waitOps, sent: []time.Duration{0, second}, returns: second},
	{fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: 2 * bound}, except: append(waitOps, chaos.OpRenew), sent: []time.Duration{0}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultBroken}, except: []chaos.Op{chaos.OpAcquire, chaos.OpRenew, chaos.OpBreak}, sent: []time.Duration{0}},
	{fault: chaos.Fault{Kind: chaos.FaultBroken, After: true}, except: []chaos.Op{chaos.OpBreak}, sent: []time.Duration{0}},
	{fault: chaos.Fault{Kind: chaos.FaultPartitioned}, returns: bound, is: append(unknown, context.DeadlineExceeded), not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: second}, returns: second, is: unknown, not: definite},
	{fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}, sent: []time.Duration{0}},
	{fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: second}, sent: []time.Duration{0}}, // nothing to serve yet
}

// TestEachFaultOfEachOperation checks when the operation reaches the backend, and which answer the
// caller gets, and when.
func TestEachFaultOfEachOperation(t *testing.T) {
	tried := map[chaos.FaultKind]map[chaos.Op]bool{}
	for _, promise := range promises {
		for _, verb := range verbs {
			kind := promise.fault.Kind
			rule := chaos.Rule{Fault: promise.fault, Match: chaos.Match{Ops: []chaos.Op{verb.op}}}
			if (chaos.Plan{Rules: []chaos.Rule{rule}}).Validate() != nil {
				continue // the fault can't happen to this operation
			}
			if tried[kind] == nil {
				tried[kind] = map[chaos.Op]bool{}
			}
			tried[kind][verb.op] = true
			if slices.Contains(promise.except, verb.op) {
				continue
			}
			t.Run(string(kind)+" "+verb.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { promise.check(t, verb, rule) })
			})
		}
	}
	assert.Len(t, tried, 12, "every kind")
	assert.Len(t, tried[chaos.FaultDelay], 11, "every operation")
}

func (promise promise) check(t *testing.T, verb verb, rule chaos.Rule) {
	p, b := wrapped(t, rule)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err := b.Provider.Acquire(ctx, claim("n", "id"))
	require.NoError(t, err)
	start := time.Now()
	err = verb.call(ctx, p, b)
	assert.Equal(t, promise.returns, time.Since(start), "when the caller gets its answer")
	if len(promise.is) == 0 {
		assert.NoError(t, err)
	}
	for _, target := range promise.is {
		assert.ErrorIs(t, err, target)
	}
	for _, target := range promise.not {
		assert.NotErrorIs(t, err, target)
	}
	if err != nil {
		looksReal(t, err, verb, promise.fault)
	}
	require.NoError(t, p.Settle(t.Context()))
	assert.Equal(t, promise.sent, b.times(verb.op), "when the operation reaches the backend")
}

// looksReal checks that an injected error has the form of a provider's error.
func looksReal(t *testing.T, err error, verb verb, fault chaos.Fault) {
	t.Helper()
	var outer *leasing.Error
	require.ErrorAs(t, err, &outer)
	assert.Equal(t, "memory", outer.Provider)
	op := verb.op
	if op == chaos.OpRenewBatch {
		op = chaos.OpRenew
	}
	assert.Equal(t, string(op), outer.Op)
	var injected *chaos.InjectedError
	require.ErrorAs(t, err, &injected)
	assert.Equal(t, fault.Kind, injected.Kind)
	assert.Equal(t, string(fault.Kind), injected.Rule)
	if fault.Kind == chaos.FaultThrottle {
		var throttled *leasing.ThrottledError
		require.ErrorAs(t, err, &throttled)
		assert.Equal(t, fault.RetryAfter, throttled.RetryAfter)
	}
}

func TestBrokenUnderItsHolder(t *testing.T) {
	run := func(fault chaos.Fault, check func(t *testing.T, p *chaos.Provider, b *backend)) {
		fault.Kind = chaos.FaultBroken
		synctest.Test(t, func(t *testing.T) {
			p, b := wrapped(t, chaos.Rule{Fault: fault, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}}})
			_, err := p.Acquire(t.Context(), claim("n", "id"))
			require.NoError(t, err)
			check(t, p, b)
		})
	}
	lost := func(t *testing.T, err error) {
		var lost *leasing.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, leasing.LostBroken, lost.Reason)
		assert.NotErrorIs(t, err, chaos.ErrInjected, "it is the backend's own word")
	}
	held := func(t *testing.T, b *backend) bool {
		record, err := b.Provider.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		return record.Held
	}
	run(chaos.Fault{}, func(t *testing.T, p *chaos.Provider, b *backend) {
		_, err := p.Renew(t.Context(), b.renewal("n", "id"))
		lost(t, err)
		assert.False(t, held(t, b), "free at once")
	})
	run(chaos.Fault{}, func(t *testing.T, p *chaos.Provider, b *backend) {
		results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n", "id")})
		require.NoError(t, err)
		lost(t, results[0].Err)
	})
	run(chaos.Fault{RunOut: true}, func(t *testing.T, p *chaos.Provider, b *backend) {
		_, err := p.Renew(t.Context(), b.renewal("n", "id"))
		lost(t, err)
		assert.True(t, held(t, b), "it runs out")
	})
	run(chaos.Fault{After: true}, func(t *testing.T, p *chaos.Provider, b *backend) {
		_, err := p.Renew(t.Context(), b.renewal("n", "id"))
		require.NoError(t, err, "renewed, and then broken")
		assert.False(t, held(t, b))
	})
	run(chaos.Fault{After: true}, func(t *testing.T, p *chaos.Provider, b *backend) {
		results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n", "id")})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		assert.False(t, held(t, b))
	})
}

// TestABrokenInfiniteLeaseRunsOutToo: an infinite lease has no end for which a Break without
// Immediate could wait, so RunOut adds a grace period.
func TestABrokenInfiniteLeaseRunsOutToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultBroken, RunOut: true}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}})
		req := claim("n", "id")
		req.TTL = leasing.Infinite
		_, err := p.Acquire(t.Context(), req)
		require.NoError(t, err)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.True(t, record.Breaking)
		time.Sleep(29 * second)
		record, err = b.Provider.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.True(t, record.Held, "its holder has time to hear of it")
		time.Sleep(2 * second)
		record, err = b.Provider.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

// TestDelaysAddUpAndOneFaultHappens: delays add up, and of the other faults only the first in the
// plan happens.
func TestDelaysAddUpAndOneFaultHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, Budget: chaos.Budget{Total: 1}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultThrottle}, Budget: chaos.Budget{Total: 1}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second}},
		)
		start := time.Now()
		require.NotErrorIs(t, p.Ping(t.Context()), leasing.ErrThrottled)
		assert.Equal(t, 2*second, time.Since(start))
		assert.Equal(t, []time.Duration{2 * second}, b.times(chaos.OpPing))
		assert.Equal(t, map[string]int{"delay": 1, "reply_lost": 1, "throttle": 0, "delay-2": 1}, p.Report().ByRule, "what does not happen uses no budget up")
		require.ErrorIs(t, p.Ping(t.Context()), leasing.ErrThrottled)
		require.NoError(t, p.Ping(t.Context()))
	})
}

// TestWhatCantWorkIsRefusedAsSuch: a fault does not hide a mistake of the caller.
func TestWhatCantWorkIsRefusedAsSuch(t *testing.T) {
	p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}})
	_, err := p.Acquire(t.Context(), abstractions.AcquireRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = p.Renew(t.Context(), abstractions.RenewRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.ErrorIs(t, p.Release(t.Context(), abstractions.ReleaseRequest{}), leasing.ErrInvalid)
	_, err = p.Break(t.Context(), abstractions.BreakRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = p.Inspect(t.Context(), abstractions.InspectRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = p.Wait(t.Context(), abstractions.WaitRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = p.History(t.Context(), abstractions.HistoryRequest{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{{}, b.renewal("n", "id")})
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, leasing.ErrInvalid)
	require.ErrorIs(t, results[1].Err, chaos.ErrInjected)
	assert.Zero(t, p.Report().ByOp[chaos.OpAcquire])

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := p.Report()
	require.ErrorIs(t, p.Ping(ended), context.Canceled)
	_, _ = p.Wait(ended, abstractions.WaitRequest{Name: "n", ID: "id"})
	_, _ = p.RenewBatch(ended, []abstractions.RenewRequest{b.renewal("n", "id")})
	assert.Equal(t, before, p.Report(), "what is not sent has no fate")
}

// TestWhatWasAppliedIsUnknown: the outcome of an applied request is unknown, even if the
// wrapper is closed before the answer comes, because ErrClosed would promise that nothing was
// sent. The call returns no grant with this error.
func TestWhatWasAppliedIsUnknown(t *testing.T) {
	twice := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: 2 * second}}
	for what, rules := range map[string][]chaos.Rule{
		"reply lost":    {{Fault: chaos.Fault{Kind: chaos.FaultReplyLost, Delay: time.Hour}}},
		"reply delayed": {{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Hour, After: true}}},
		"twice":         {{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: time.Hour}}},
		"cut off since": {twice, {Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: second}}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, b := wrapped(t, rules...)
				var call sync.WaitGroup
				call.Go(func() {
					grant, err := p.Acquire(context.Background(), claim("n", "id"))
					assert.ErrorIs(t, err, leasing.ErrUnavailable)
					assert.ErrorIs(t, err, chaos.ErrInjected)
					assert.NotErrorIs(t, err, leasing.ErrClosed)
					assert.Zero(t, grant)
				})
				time.Sleep(5 * second)
				require.NotEmpty(t, b.times(chaos.OpAcquire))
				require.NoError(t, p.Close())
				call.Wait()
			})
		})
	}
}

func TestACallThatIsGivenUpSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultHang}})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(second, func() { cancel(why) })
		err := p.Ping(ctx)
		require.ErrorContains(t, err, why.Error())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
	})
}

// TestNothingIsSentAfterClose: if an Observer closes the wrapper, no request is sent afterwards.
func TestNothingIsSentAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *chaos.Provider
		var b *backend
		p, b = wrappedWith(t, chaos.Options{Observer: func(chaos.Injection) { assert.NoError(t, p.Close()) }},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}})
		_, err := p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		assert.Equal(t, chaos.LateDeliveries{Dropped: 1}, p.Report().Late)
		time.Sleep(2 * second)
		assert.Empty(t, b.times(chaos.OpAcquire))
	})
}

// TestRulesAreSwitchedTogether: if one of the names is unknown, no rule is switched.
func TestRulesAreSwitchedTogether(t *testing.T) {
	p, _ := wrapped(t, chaos.Rule{Name: "a", Fault: chaos.Fault{Kind: chaos.FaultError}}, chaos.Rule{Name: "b", Fault: chaos.Fault{Kind: chaos.FaultError}})
	require.ErrorIs(t, p.Disable("a", "b", "nonsense"), leasing.ErrInvalid)
	require.Error(t, p.Ping(t.Context()))
	assert.Equal(t, 1, p.Report().ByRule["a"], "no rule has changed")
	require.NoError(t, p.Disable("a", "b"))
	require.NoError(t, p.Ping(t.Context()))
	require.NoError(t, p.Enable("b"))
	require.Error(t, p.Ping(t.Context()))
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, p.Report().ByRule)
}

// TestADelayWithoutAnEnd: adding jitter to an infinite delay does not overflow.
func TestADelayWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: leasing.Infinite, Jitter: time.Hour}})
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		require.ErrorIs(t, p.Ping(ctx), context.DeadlineExceeded)
		assert.Empty(t, b.times(chaos.OpPing))
	})
}

func TestInjectedErrorsSayWhatTheyAre(t *testing.T) {
	p, _ := wrapped(t, chaos.Rule{Name: "flaky", Fault: chaos.Fault{Kind: chaos.FaultReplyLost}})
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.EqualError(t, err, `leasing: acquire "n" (memory): backend unavailable (injected by chaos: rule "flaky", reply_lost)`)
	require.False(t, errors.Is(err, leasing.ErrHeld))
}

// The cause of a caller's context may be the error of another lease, unrelated to this request.
func TestTrap_T88_CauseOfAContextIsNoAnswer(t *testing.T) {
	for _, kind := range []chaos.FaultKind{chaos.FaultHang, chaos.FaultReplyLost, chaos.FaultDelay, chaos.FaultAppliedTwice} {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				fault := chaos.Fault{Kind: kind, Delay: time.Hour, After: after && kind == chaos.FaultDelay}
				if kind == chaos.FaultHang {
					fault.Delay = 0
				}
				p, _ := wrapped(t, chaos.Rule{Fault: fault})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(&leasing.LostError{Reason: leasing.LostExpired}) })
				_, err := p.Acquire(ctx, claim("name", abstractions.NewID()))
				require.ErrorIs(t, err, leasing.ErrUnavailable)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, leasing.ErrLost)
				require.False(t, abstractions.NotApplied(err), "%s: %v", kind, err)
			})
		}
	}
}
