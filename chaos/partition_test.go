package chaos_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// partitionRule returns the rule of a partition in which requests fail at once.
func partitionRule(when chaos.Policy, owners ...string) chaos.Rule {
	return chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: 1}, When: when, Match: chaos.Match{Owners: owners}}
}

func TestPartitionLetsNothingThroughWhateverThePlansBudget(t *testing.T) {
	b := newBackend()
	plan := chaos.Plan{Budget: chaos.Budget{Total: 1}, Rate: chaos.Rate{Count: 1, Per: time.Hour}, Rules: []chaos.Rule{
		partitionRule(chaos.Policy{}), {Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}},
	}}
	p, err := chaos.Wrap(b, plan, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	for range 5 {
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
	}
	assert.Empty(t, b.times(chaos.OpAcquire))
	assert.Equal(t, 5, p.Report().ByKind[chaos.FaultPartitioned])
	assert.Equal(t, 1, p.Report().ByKind[chaos.FaultDelay], "whose budget that is")
}

func TestPartitionComesBeforeOtherRules(t *testing.T) {
	p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultReplyLost}}, partitionRule(chaos.Policy{}))
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.ErrorIs(t, err, chaos.ErrInjected)
	assert.Empty(t, b.times(chaos.OpAcquire))
}

// registerWaiter registers a waiter for a name that another claim holds.
func registerWaiter(t *testing.T, p *chaos.Provider, b *backend) abstractions.Wakeups {
	t.Helper()
	_, err := b.Provider.Acquire(t.Context(), claim("n", "holder"))
	require.NoError(t, err)
	wakeups, err := p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "waiter"})
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), claim("n", "waiter"))
	require.ErrorIs(t, err, leasing.ErrHeld)
	return wakeups
}

// isWoken frees the name and reports whether the waiter gets a wake-up.
func isWoken(t *testing.T, b *backend, wakeups abstractions.Wakeups) bool {
	t.Helper()
	require.NoError(t, b.Provider.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "holder"}))
	synctest.Wait()
	return len(wakeups.C) > 0
}

func TestDisabledPartitionLetsWakeupsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, partitionRule(chaos.Policy{From: 10 * second}))
		wakeups := registerWaiter(t, p, b)
		time.Sleep(20 * second)
		require.NoError(t, p.Disable())
		assert.True(t, isWoken(t, b, wakeups))
	})
}

func TestEnabledPartitionCutsOffWhoWaitsAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, partitionRule(chaos.Policy{}))
		require.NoError(t, p.Disable())
		wakeups := registerWaiter(t, p, b)
		assert.Zero(t, p.Report().Injected, "nothing happens while all is disabled")
		require.NoError(t, p.Enable())
		assert.False(t, isWoken(t, b, wakeups))
	})
}

func TestPartitionOfAnOwnerWhoWaitedBeforeHeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, partitionRule(chaos.Policy{From: second}, "owner"))
		wakeups := registerWaiter(t, p, b)
		time.Sleep(2 * second)
		assert.False(t, isWoken(t, b, wakeups))
	})
}

func TestPartitionOfAnOwnerWhoAcquiredBeforeItWasEnabled(t *testing.T) {
	p, b := wrapped(t, partitionRule(chaos.Policy{}, "owner"))
	require.NoError(t, p.Disable())
	_, err := p.Acquire(t.Context(), claim("n", "id"))
	require.NoError(t, err)
	require.NoError(t, p.Enable())
	_, err = p.Renew(t.Context(), b.renewal("n", "id"))
	assert.ErrorIs(t, err, chaos.ErrInjected)
}

// slowAcquirer needs 5 s for an Acquire.
type slowAcquirer struct{ leasing.Provider }

func (s slowAcquirer) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	time.Sleep(5 * second)
	return s.Provider.Acquire(ctx, req)
}

func TestPartitionThatIsDisabledWhileARequestIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := chaos.Wrap(slowAcquirer{newBackend()}, chaos.Plan{Rules: []chaos.Rule{partitionRule(chaos.Policy{From: 2 * second})}}, chaos.Options{})
		require.NoError(t, err)
		defer p.Close()
		time.AfterFunc(3*second, func() { _ = p.Disable() })
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		assert.NoError(t, err)
	})
}

// TestAPartitionTakesTheReplyToo: the reply is lost if the partition begins while the operation is
// in flight.
func TestAPartitionTakesTheReplyToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: second}}, // takes a second
			chaos.Rule{Name: "cut", Fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: 3 * second}, When: chaos.Policy{From: second / 2, To: 20 * second}, Match: chaos.Match{Names: []string{"n"}}},
		)
		start := time.Now()
		_, err := p.Acquire(t.Context(), claim("n", "id"))
		var injected *chaos.InjectedError
		require.ErrorAs(t, err, &injected)
		assert.Equal(t, "cut", injected.Rule)
		assert.Equal(t, 4*second, time.Since(start))
		assert.Len(t, b.times(chaos.OpAcquire), 2, "the request had got through")
		assert.Equal(t, map[string]int{"applied_twice": 1, "cut": 1}, p.Report().ByRule)
		_, err = p.Acquire(t.Context(), claim("other", "id"))
		require.NoError(t, err, "others are not cut off")
		time.Sleep(20 * second)
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.NoError(t, err, "it is over")
	})
}

func TestAPartitionTakesARefusalToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: 1}, When: chaos.Policy{From: second / 2}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: second}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: second}},
		)
		_, err := b.Provider.Acquire(t.Context(), claim("n", "holder"))
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		require.NotErrorIs(t, err, leasing.ErrHeld)
	})
}

// TestAPartitionTakesAStaleReplyToo: the reply is lost if the partition begins while the read is in
// flight.
func TestAPartitionTakesAStaleReplyToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := wrapped(t,
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 2 * second}, When: chaos.Policy{Skip: 1}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, When: chaos.Policy{Skip: 1}},
			chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: 1}, When: chaos.Policy{From: second}},
		)
		_, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.ErrorIs(t, err, chaos.ErrInjected)
		assert.Equal(t, map[string]int{"delay": 1, "stale_read": 1, "partitioned": 1}, p.Report().ByRule)
	})
}

// TestPartitionOfAnOwner: the owner of a renewal is found by the claim's ID.
func TestPartitionOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrappedWith(t, chaos.Options{Owner: "me"},
			chaos.Rule{Name: "cut", Fault: chaos.Fault{Kind: chaos.FaultPartitioned, Delay: 1}, When: chaos.Policy{From: second}, Match: chaos.Match{Owners: []string{"cut-*", "me"}}})
		for _, owner := range []string{"cut-off", "other"} {
			req := claim("of/"+owner, owner)
			req.Owner = owner
			_, err := p.Acquire(t.Context(), req)
			require.NoError(t, err)
		}
		time.Sleep(second)
		_, err := p.Renew(t.Context(), b.renewal("of/cut-off", "cut-off"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		_, err = p.Renew(t.Context(), b.renewal("of/other", "other"))
		require.NoError(t, err)
		require.ErrorIs(t, p.Ping(t.Context()), chaos.ErrInjected, "Options.Owner asks where nobody else does")
		require.NoError(t, p.Disable("cut"))
		_, err = p.Renew(t.Context(), b.renewal("of/cut-off", "cut-off"))
		require.NoError(t, err)
		require.NoError(t, p.Enable("cut"))
		require.Error(t, p.Ping(t.Context()))
		require.NoError(t, p.Disable())
		require.NoError(t, p.Ping(t.Context()))
		require.NoError(t, p.Enable())
		require.Error(t, p.Ping(t.Context()))
		require.ErrorIs(t, p.Enable("cut", "nonsense"), leasing.ErrInvalid)
		require.ErrorIs(t, p.Disable("nonsense"), leasing.ErrInvalid)
	})
}
