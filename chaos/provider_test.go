package chaos_test

import (
	"context"
	"errors"
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

// withExtra is a provider with only the abilities that its function as reports.
type withExtra struct {
	leasing.Provider
	as func(target any) bool
}

func (p withExtra) As(target any) bool { return p.as != nil && p.as(target) }

// extra is an ability unknown to the wrapper.
type extra interface{ Extra() }

func (withExtra) Extra() {}

func has[T any](p leasing.Provider) bool {
	_, ok := abstractions.As[T](p)
	return ok
}

func abilities(p leasing.Provider) [7]bool {
	return [...]bool{
		has[abstractions.BatchRenewer](p), has[abstractions.Waiter](p), has[abstractions.Lister](p), has[abstractions.Pinger](p), has[abstractions.HistoryReader](p),
		has[extra](p), has[abstractions.WaiterLister](p),
	}
}

// TestTrap_T53_AbilitiesAreThoseOfTheWrapped: the wrapper neither hides nor adds an optional ability of package
// abstractions.
func TestTrap_T53_AbilitiesAreThoseOfTheWrapped(t *testing.T) {
	memory := memlease.New(memlease.Options{History: 1})
	only := func(as func(target any) bool) leasing.Provider { return withExtra{memory, as} }
	for _, test := range []struct {
		inner leasing.Provider
		want  [7]bool
	}{
		{memory, [...]bool{true, true, true, true, true, false, true}},
		{memlease.New(memlease.Options{}), [...]bool{true, true, true, true, false, false, true}},
		{withExtra{memory, nil}, [7]bool{}},
		{only(func(target any) bool { a, ok := target.(*abstractions.BatchRenewer); return set(a, ok, memory) }), [7]bool{0: true}},
		{only(func(target any) bool { a, ok := target.(*abstractions.Waiter); return set(a, ok, memory) }), [7]bool{1: true}},
		{only(func(target any) bool { a, ok := target.(*abstractions.Lister); return set(a, ok, memory) }), [7]bool{2: true}},
		{only(func(target any) bool { a, ok := target.(*abstractions.Pinger); return set(a, ok, memory) }), [7]bool{3: true}},
		{only(func(target any) bool { a, ok := target.(*abstractions.HistoryReader); return set(a, ok, memory) }), [7]bool{4: true}},
		{only(func(target any) bool { a, ok := target.(*abstractions.WaiterLister); return set(a, ok, memory) }), [7]bool{6: true}},
	} {
		p, err := chaos.Wrap(test.inner, chaos.Plan{}, chaos.Options{KeepOpen: true})
		require.NoError(t, err)
		assert.Equal(t, test.want, abilities(p))
		require.NoError(t, p.Close())
	}
}

func set[T any](target *T, ok bool, p any) bool {
	if ok {
		*target = p.(T)
	}
	return ok
}

// TestTrap_T64_NothingReachesTheBackendPastTheWrapper: the wrapper itself implements each
// ability that it reports, and hides unknown abilities.
func TestTrap_T64_NothingReachesTheBackendPastTheWrapper(t *testing.T) {
	p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}})
	batcher, _ := abstractions.As[abstractions.BatchRenewer](p)
	waiter, _ := abstractions.As[abstractions.Waiter](p)
	lister, _ := abstractions.As[abstractions.Lister](p)
	pinger, _ := abstractions.As[abstractions.Pinger](p)
	historian, _ := abstractions.As[abstractions.HistoryReader](p)
	waiters, _ := abstractions.As[abstractions.WaiterLister](p)
	for _, ability := range []any{batcher, waiter, waiters, lister, pinger, historian} {
		assert.Same(t, p, ability)
	}
	for _, verb := range verbs {
		_ = verb.call(t.Context(), p, b)
		assert.Empty(t, b.times(verb.op), verb.name)
	}
	inner := withExtra{b, nil}
	require.True(t, func() bool { _, ok := any(inner).(extra); return ok }())
	hidden, err := chaos.Wrap(inner, chaos.Plan{}, chaos.Options{KeepOpen: true})
	require.NoError(t, err)
	defer hidden.Close()
	assert.False(t, has[extra](hidden))
	_, ok := any(hidden).(interface{ Unwrap() leasing.Provider })
	assert.False(t, ok, "there is no way to look through")
}

func TestWithoutTheAbilityItIsUnsupported(t *testing.T) {
	p, err := chaos.Wrap(withExtra{memlease.New(memlease.Options{}), nil}, chaos.Plan{}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	for _, verb := range verbs {
		err := verb.call(t.Context(), p, newBackend())
		switch verb.name {
		case "item of a batch", "batch", "list", "history", "ping", "wait", "waiters":
			assert.ErrorIs(t, err, leasing.ErrUnsupported, verb.name)
		default:
			assert.NotErrorIs(t, err, leasing.ErrUnsupported, verb.name)
		}
	}
}

// TestTrap_T51_AutoRenewalGoesThroughTheWrapper: the plan applies to the manager's own renewals and
// clean-ups, batched or single.
func TestTrap_T51_AutoRenewalGoesThroughTheWrapper(t *testing.T) {
	for what, wrap := range map[string]func(b *backend) leasing.Provider{
		"batched":    func(b *backend) leasing.Provider { return b },
		"one by one": func(b *backend) leasing.Provider { return withExtra{b, nil} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend()
				p, err := chaos.Wrap(wrap(b), chaos.Plan{Rules: []chaos.Rule{
					{Name: "renewals", Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{From: 20 * second}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}}},
					{Name: "clean-ups", Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRelease}}, Budget: chaos.Budget{Total: 2}},
				}}, chaos.Options{})
				require.NoError(t, err)
				manager, err := leasing.NewManager(p, leasing.Options{TTL: 10 * second})
				require.NoError(t, err)
				var leases []*leasing.Lease
				for _, name := range []string{"a", "b", "c"} {
					lease, err := manager.Acquire(t.Context(), name)
					require.NoError(t, err)
					leases = append(leases, lease)
				}
				time.Sleep(19 * second)
				require.NoError(t, leases[0].Context().Err(), "it is renewed")
				for _, lease := range leases {
					<-lease.Done()
					require.ErrorIs(t, lease.Err(), leasing.ErrLost)
					require.ErrorIs(t, lease.Err(), chaos.ErrInjected, "and not renewed any more")
				}
				require.NoError(t, manager.Close(t.Context()))
				assert.NotZero(t, p.Report().ByRule["renewals"])
				assert.Equal(t, 2, p.Report().ByRule["clean-ups"], "the manager tells the backend by itself that it gives up")
				require.NoError(t, p.Close())
			})
		})
	}
}

// expectFaults runs operations against a wrapper that makes 3 of 10 fail. It reports whether 27
// to 33 % fail, and whether a second rule makes exactly its first two operations fail.
func expectFaults(t *testing.T, wrap func(inner leasing.Provider, plan chaos.Plan) leasing.Provider) (share, first bool) {
	const n = 2000
	b := newBackend()
	p := wrap(b, chaos.Plan{Seed: 1, Rules: []chaos.Rule{
		{Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Probability: .3}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}},
		{Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, When: chaos.Policy{First: 2}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRelease}}},
	}})
	failed := 0
	for range n {
		if _, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"}); err != nil {
			failed++
		}
	}
	var outcomes []bool
	for range 4 {
		outcomes = append(outcomes, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "id"}) != nil)
	}
	require.NoError(t, p.Close())
	share = failed > n*27/100 && failed < n*33/100
	first = assert.ObjectsAreEqual([]bool{true, true, false, false}, outcomes)
	return share, first
}

// doubleCaller applies the policy twice to each operation.
type doubleCaller struct {
	leasing.Provider
	again *chaos.Provider
}

func (p doubleCaller) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	if _, err := p.again.Inspect(ctx, req); err == nil {
		return p.again.Inspect(ctx, req)
	}
	return p.Provider.Inspect(ctx, req)
}

func (p doubleCaller) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_ = p.again.Release(ctx, req)
	return p.again.Release(ctx, req)
}

func (p doubleCaller) Close() error { return errors.Join(p.again.Close(), p.Provider.Close()) }

// TestTrap_T50_ThePolicyIsAskedOncePerOperation also checks that expectFaults notices a wrapper
// that applies the policy twice.
func TestTrap_T50_ThePolicyIsAskedOncePerOperation(t *testing.T) {
	wrap := func(inner leasing.Provider, plan chaos.Plan) leasing.Provider {
		p, err := chaos.Wrap(inner, plan, chaos.Options{})
		require.NoError(t, err)
		return p
	}
	share, first := expectFaults(t, wrap)
	assert.True(t, share)
	assert.True(t, first)
	share, first = expectFaults(t, func(inner leasing.Provider, plan chaos.Plan) leasing.Provider {
		return doubleCaller{inner, wrap(inner, plan).(*chaos.Provider)}
	})
	assert.False(t, share, "broken on purpose")
	assert.False(t, first, "broken on purpose")
}

// TestTrap_T50_CountsOfEachOperation: each rule decides once about each operation and each item
// of a batch, whichever fault happens.
func TestTrap_T50_CountsOfEachOperation(t *testing.T) {
	for _, kind := range []chaos.FaultKind{chaos.FaultError, chaos.FaultReplyLost, chaos.FaultAppliedTwice, chaos.FaultRequestLost, chaos.FaultThrottle, chaos.FaultBroken} {
		for _, verb := range verbs {
			plan := chaos.Plan{Rules: []chaos.Rule{
				{Name: "first", Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}, When: chaos.Policy{Sequence: "x..x.x"}, Match: chaos.Match{Ops: []chaos.Op{verb.op}}},
				{Name: "it", Fault: chaos.Fault{Kind: kind}, When: chaos.Policy{Sequence: ".xx"}, Match: chaos.Match{Ops: []chaos.Op{verb.op}}},
			}}
			if plan.Validate() != nil {
				continue
			}
			b := newBackend()
			p, err := chaos.Wrap(b, plan, chaos.Options{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			for range 8 {
				_ = verb.call(ctx, p, b)
			}
			cancel()
			assert.Equal(t, 8, p.Report().Operations[verb.op], "%s %s", kind, verb.name)
			assert.Equal(t, 3, p.Report().ByRule["first"], "%s %s", kind, verb.name)
			assert.Equal(t, 2, p.Report().ByRule["it"], "%s %s", kind, verb.name)
			require.NoError(t, p.Close())
		}
	}
}

// TestCloseEndsWhatHangs: Close ends hanging calls, drops late requests and closes the wrapped
// provider.
func TestCloseEndsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		p, err := chaos.Wrap(b, chaos.Plan{Rules: []chaos.Rule{
			{Fault: chaos.Fault{Kind: chaos.FaultHang}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpPing}}},
			{Fault: chaos.Fault{Kind: chaos.FaultHang, After: true}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}},
			{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Hour}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpList}}},
			{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: time.Hour}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}},
			{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpWait}}},
		}}, chaos.Options{})
		require.NoError(t, err)
		ctx := context.Background()
		_, err = p.Acquire(ctx, claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		_, err = p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "waiter"})
		require.NoError(t, err)
		var calls sync.WaitGroup
		calls.Go(func() { assert.ErrorIs(t, p.Ping(ctx), leasing.ErrClosed, "nothing was sent") })
		calls.Go(func() {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			assert.ErrorIs(t, err, leasing.ErrUnavailable)
			assert.NotErrorIs(t, err, leasing.ErrClosed, "it was applied")
		})
		calls.Go(func() {
			_, err := p.List(ctx, abstractions.ListRequest{})
			assert.ErrorIs(t, err, leasing.ErrClosed)
		})
		synctest.Wait()
		start := time.Now()
		require.NoError(t, p.Close())
		calls.Wait()
		assert.Zero(t, time.Since(start))
		assert.Equal(t, chaos.LateDeliveries{Dropped: 1}, p.Report().Late)
		assert.Empty(t, b.times(chaos.OpAcquire))
		require.NoError(t, p.Settle(ctx))
		require.NoError(t, p.Close(), "again")
		assert.ErrorIs(t, b.Provider.Ping(ctx), leasing.ErrClosed, "the wrapped provider is closed")
		for _, verb := range verbs {
			assert.ErrorIs(t, verb.call(ctx, p, b), leasing.ErrClosed, verb.name)
		}
	})
}

func TestCloseCanKeepTheWrappedOpen(t *testing.T) {
	b := newBackend()
	p, err := chaos.Wrap(b, chaos.Plan{}, chaos.Options{KeepOpen: true})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Ping(t.Context()), leasing.ErrClosed)
	require.NoError(t, b.Ping(t.Context()))
}

// canceledAcquirer blocks in Acquire until the context ends.
type canceledAcquirer struct{ *backend }

func (p canceledAcquirer) Acquire(ctx context.Context, _ abstractions.AcquireRequest) (abstractions.Grant, error) {
	<-ctx.Done()
	return abstractions.Grant{}, ctx.Err()
}

// TestCloseCancelsWhatArrivesLate: Close cancels a late request in flight; without Close the
// request is cancelled after 10 s.
func TestCloseCancelsWhatArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}}}}
		p, err := chaos.Wrap(canceledAcquirer{newBackend()}, late, chaos.Options{})
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		start := time.Now()
		require.NoError(t, p.Settle(t.Context()))
		assert.Equal(t, 11*second, time.Since(start))
		assert.Equal(t, chaos.LateDeliveries{Refused: 1}, p.Report().Late)

		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		time.Sleep(2 * second)
		start = time.Now()
		require.NoError(t, p.Close())
		assert.Zero(t, time.Since(start))
		assert.Equal(t, chaos.LateDeliveries{Refused: 1, Dropped: 1}, p.Report().Late)
	})
}

// blockingBackend blocks in Acquire until release is closed, and its Close returns an error.
type blockingBackend struct {
	*backend
	release chan struct{}
}

var errStuck = errors.New("did not close")

func (p blockingBackend) Acquire(context.Context, abstractions.AcquireRequest) (abstractions.Grant, error) {
	<-p.release
	return abstractions.Grant{}, nil
}

func (p blockingBackend) Close() error { return errStuck }

func TestCloseWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := blockingBackend{newBackend(), make(chan struct{})}
		p, err := chaos.Wrap(inner, chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}}}}, chaos.Options{})
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		time.Sleep(2 * second)
		start := time.Now()
		err = p.Close()
		assert.Equal(t, 10*second, time.Since(start))
		require.ErrorIs(t, err, errStuck)
		require.ErrorContains(t, err, "have not ended")
		start = time.Now()
		require.Equal(t, err, p.Close(), "again")
		assert.Zero(t, time.Since(start))
		close(inner.release)
	})
}

// TestConcurrentSafe runs all operations concurrently while rules are switched, for the race
// detector.
func TestConcurrentSafe(t *testing.T) {
	p, b := wrapped(t, everything(3).Rules...)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var workers sync.WaitGroup
	for range 4 {
		for _, verb := range verbs {
			workers.Go(func() {
				for ctx.Err() == nil {
					_ = verb.call(ctx, p, b)
				}
			})
		}
	}
	workers.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, p.Disable())
			assert.NoError(t, p.Enable("stolen"))
			assert.NoError(t, p.Enable())
			_ = p.Report().String()
			assert.NoError(t, p.Disable("stolen"))
		}
	})
	workers.Wait()
	require.NotZero(t, p.Report().Injected)
}

// TestFateIsItsOwn: the faults of an owner's operations on a name do not depend on other operations
// at the same time.
func TestFateIsItsOwn(t *testing.T) {
	fates := func(meanwhile func(p *chaos.Provider)) (failed []bool) {
		p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultRequestLost}, When: chaos.Policy{Probability: .5}})
		for range 64 {
			_, err := p.Acquire(t.Context(), claim("n", "id"))
			failed = append(failed, errors.Is(err, chaos.ErrInjected))
			meanwhile(p)
		}
		return failed
	}
	alone := fates(func(*chaos.Provider) {})
	for what, meanwhile := range map[string]func(p *chaos.Provider){
		"another owner": func(p *chaos.Provider) {
			req := claim("n", "other")
			req.Owner = "other"
			_, _ = p.Acquire(t.Context(), req)
		},
		"another name": func(p *chaos.Provider) { _, _ = p.Acquire(t.Context(), claim("other", "id")) },
		"another operation": func(p *chaos.Provider) {
			_, _ = p.Renew(t.Context(), abstractions.RenewRequest{Name: "n", ID: "id", Token: 1, TTL: second})
		},
	} {
		assert.Equal(t, alone, fates(meanwhile), what)
	}
}
