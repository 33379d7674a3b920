package chaos_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// on returns a rule for the renewals of one name.
func on(name string, fault chaos.Fault) chaos.Rule {
	return chaos.Rule{Name: name, Fault: fault, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}, Names: []string{name}}}
}

// renewAll acquires the names and renews them in one batch.
func renewAll(t *testing.T, p *chaos.Provider, b *backend, names ...string) (results map[string]abstractions.RenewResult, took time.Duration) {
	t.Helper()
	var reqs []abstractions.RenewRequest
	for _, name := range names {
		_, err := b.Provider.Acquire(t.Context(), claim(name, "id"))
		require.NoError(t, err)
		reqs = append(reqs, b.renewal(name, "id"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	start := time.Now()
	got, err := p.RenewBatch(ctx, reqs)
	require.NoError(t, err)
	require.Len(t, got, len(names))
	results = map[string]abstractions.RenewResult{}
	for i, name := range names {
		results[name] = got[i]
		if got[i].Err == nil {
			assert.Equal(t, name, got[i].Grant.Name, "results are in the order of the requests")
		} else {
			assert.Zero(t, got[i].Grant)
		}
	}
	return results, time.Since(start)
}

// TestEachItemOfABatchHasItsOwnFate: the fault of an item does not affect other items.
func TestEachItemOfABatchHasItsOwnFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			on("request", chaos.Fault{Kind: chaos.FaultRequestLost, Delay: second}),
			on("reply", chaos.Fault{Kind: chaos.FaultReplyLost, Delay: second}),
			on("hangs", chaos.Fault{Kind: chaos.FaultHang}),
			on("cut", chaos.Fault{Kind: chaos.FaultPartitioned}),
			on("late", chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}),
			on("twice", chaos.Fault{Kind: chaos.FaultAppliedTwice}),
			on("throttled", chaos.Fault{Kind: chaos.FaultThrottle}),
			on("denied", chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied}),
			on("broken", chaos.Fault{Kind: chaos.FaultBroken}),
		)
		results, took := renewAll(t, p, b, "first", "request", "reply", "hangs", "cut", "late", "twice", "throttled", "denied", "broken", "last")
		assert.Zero(t, took, "those that wait keep nobody waiting")
		for name, want := range map[string]error{
			"first": nil, "twice": nil, "last": nil,
			"request": leasing.ErrUnavailable, "reply": leasing.ErrUnavailable, "hangs": leasing.ErrUnavailable, "cut": leasing.ErrUnavailable,
			"late": leasing.ErrUnavailable, "throttled": leasing.ErrThrottled, "denied": leasing.ErrDenied, "broken": leasing.ErrLost,
		} {
			assert.ErrorIs(t, results[name].Err, want, name)
			if want != nil && name != "broken" {
				var outer *leasing.Error
				require.ErrorAs(t, results[name].Err, &outer)
				assert.Equal(t, name, outer.Name)
			}
		}
		assert.Len(t, b.times(chaos.OpRenewBatch), 2, "one request, and one for what is sent twice")
		assert.Len(t, b.times(chaos.OpRenew), 6, "first, reply, twice, broken, last, and twice again")
		require.NoError(t, p.Settle(t.Context()))
		assert.Len(t, b.times(chaos.OpRenew), 7, "late")
		assert.Equal(t, 11, p.Report().Operations[chaos.OpRenew], "each item was asked about once")
	})
}

// TestABatchOfWhichNothingArrives: if no item of a batch arrives, the batch takes as long as the longest wait.
func TestABatchOfWhichNothingArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, on("a", chaos.Fault{Kind: chaos.FaultHang, Delay: 2 * second}), on("b", chaos.Fault{Kind: chaos.FaultRequestLost, Delay: second}))
		results, took := renewAll(t, p, b, "a", "b")
		assert.Equal(t, 2*second, took)
		assert.ErrorIs(t, results["a"].Err, chaos.ErrInjected)
		assert.ErrorIs(t, results["b"].Err, chaos.ErrInjected)
		assert.Empty(t, b.times(chaos.OpRenewBatch))
	})
}

func TestABatchThatHangsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultHang}})
		results, took := renewAll(t, p, b, "a", "b")
		assert.Equal(t, bound, took)
		assert.ErrorIs(t, results["a"].Err, context.DeadlineExceeded)
		assert.ErrorIs(t, results["b"].Err, leasing.ErrUnavailable)
	})
}

// TestAPartitionTakesTheReplyOfAnItemToo: an item's reply is lost if the partition begins while the
// batch is in flight.
func TestAPartitionTakesTheReplyOfAnItemToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			on("twice", chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: second}), // takes a second
			on("lost", chaos.Fault{Kind: chaos.FaultReplyLost}),
			chaos.Rule{Name: "cut", Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: second / 2}, Match: chaos.Match{Names: []string{"cut", "lost"}}})
		results, took := renewAll(t, p, b, "twice", "lost", "cut")
		assert.Equal(t, second, took)
		assert.NoError(t, results["twice"].Err)
		for _, name := range []string{"lost", "cut"} {
			var injected *chaos.InjectedError
			require.ErrorAs(t, results[name].Err, &injected, name)
			assert.Equal(t, name, injected.Rule)
			assert.ErrorIs(t, injected, leasing.ErrUnavailable)
		}
		assert.Len(t, b.times(chaos.OpRenew), 4, "the requests had got through")
		assert.Equal(t, map[string]int{"twice": 1, "lost": 1, "cut": 1}, p.Report().ByRule)
	})
}

// TestABatchTakesTheLongestOfItsDelays: the delays of different items overlap, since they delay one
// request.
func TestABatchTakesTheLongestOfItsDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t,
			on("a", chaos.Fault{Kind: chaos.FaultDelay, Delay: second}),
			chaos.Rule{Name: "a, again", Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 3 * second}, Match: chaos.Match{Names: []string{"a"}}},
			on("b", chaos.Fault{Kind: chaos.FaultDelay, Delay: 3 * second}),
			on("c", chaos.Fault{Kind: chaos.FaultDelay, Delay: 2 * second, After: true}))
		results, took := renewAll(t, p, b, "a", "b", "c", "d")
		assert.Equal(t, 6*second, took)
		assert.Equal(t, []time.Duration{4 * second}, b.times(chaos.OpRenewBatch), "an item's own delays add up")
		for name, result := range results {
			assert.NoError(t, result.Err, name)
		}
	})
}

func TestABatchThatIsAbandonedWhileDelayed(t *testing.T) {
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Hour, After: after}})
			ctx, cancel := context.WithTimeout(t.Context(), second)
			defer cancel()
			_, err := p.RenewBatch(ctx, []abstractions.RenewRequest{b.renewal("n", "id")})
			require.ErrorIs(t, err, leasing.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, after, len(b.times(chaos.OpRenew)) == 1)
		})
	}
}

// halfBatcher returns results for the first half of a batch only.
type halfBatcher struct{ *backend }

var errHalf = errors.New("half of it is missing")

func (h halfBatcher) As(target any) bool {
	if batcher, ok := target.(*abstractions.BatchRenewer); ok {
		*batcher = h
		return true
	}
	return h.backend.As(target)
}

func (h halfBatcher) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results, _ := h.backend.RenewBatch(ctx, reqs[:len(reqs)/2])
	return results, errHalf
}

// TestTrap_T66_AMissingItemIsNeitherSuccessNorLoss: a missing item has no result, and the batch
// returns the wrapped provider's error.
func TestTrap_T66_AMissingItemIsNeitherSuccessNorLoss(t *testing.T) {
	b := newBackend()
	p, err := chaos.Wrap(halfBatcher{b}, chaos.Plan{Rules: []chaos.Rule{on("lost", chaos.Fault{Kind: chaos.FaultRequestLost})}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	for _, name := range []string{"lost", "a", "b"} {
		_, err := b.Provider.Acquire(t.Context(), claim(name, "id"))
		require.NoError(t, err)
	}
	results, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("lost", "id"), b.renewal("a", "id"), b.renewal("b", "id")})
	require.ErrorIs(t, err, errHalf)
	require.Len(t, results, 3)
	assert.ErrorIs(t, results[0].Err, chaos.ErrInjected)
	assert.NoError(t, results[1].Err)
	assert.Equal(t, "a", results[1].Grant.Name)
	assert.Zero(t, results[2])
}

// failingBatcher returns an error and no results for one of the batches.
type failingBatcher struct {
	*backend
	failing, calls int
}

func (o *failingBatcher) As(target any) bool {
	if batcher, ok := target.(*abstractions.BatchRenewer); ok {
		*batcher = o
		return true
	}
	return o.backend.As(target)
}

func (o *failingBatcher) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if o.calls++; o.calls == o.failing {
		return nil, errHalf
	}
	return o.backend.RenewBatch(ctx, reqs)
}

// TestTrap_T66_AnItemThatIsSentTwiceHasTheSecondAnswer: without a second answer the item has no
// result. The batch returns the error of either request.
func TestTrap_T66_AnItemThatIsSentTwiceHasTheSecondAnswer(t *testing.T) {
	for which, answered := range map[int]string{1: "twice", 2: "plain"} {
		inner := &failingBatcher{backend: newBackend(), failing: which}
		p, err := chaos.Wrap(inner, chaos.Plan{Rules: []chaos.Rule{on("twice", chaos.Fault{Kind: chaos.FaultAppliedTwice})}}, chaos.Options{})
		require.NoError(t, err)
		var reqs []abstractions.RenewRequest
		names := []string{"plain", "twice"}
		for _, name := range names {
			_, err := inner.Provider.Acquire(t.Context(), claim(name, "id"))
			require.NoError(t, err)
			reqs = append(reqs, inner.renewal(name, "id"))
		}
		results, err := p.RenewBatch(t.Context(), reqs)
		require.ErrorIs(t, err, errHalf)
		require.Len(t, results, 2)
		for i, name := range names {
			require.NoError(t, results[i].Err)
			require.Equal(t, name == answered, results[i].Grant.Token != 0, "%s, without an answer to request %d", name, which)
		}
		require.NoError(t, p.Close())
	}
}

// TestAWholeBatchIsFaultedByItsOwnName: after a fault of OpRenewBatch the rules do not decide about
// the items.
func TestAWholeBatchIsFaultedByItsOwnName(t *testing.T) {
	p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultThrottle}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenewBatch}}})
	_, err := p.RenewBatch(t.Context(), []abstractions.RenewRequest{b.renewal("n", "id")})
	require.ErrorIs(t, err, leasing.ErrThrottled)
	assert.Equal(t, map[chaos.Op]int{chaos.OpRenewBatch: 1}, p.Report().Operations)
	_, err = p.Renew(t.Context(), b.renewal("n", "id"))
	require.NotErrorIs(t, err, leasing.ErrThrottled, "a renewal by itself is no batch")
}

func TestItemIsNotSentAgainForACallerWhoIsGone(t *testing.T) {
	twice := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: time.Hour}}
	for name, goes := range map[string]func(p *chaos.Provider, cancel context.CancelFunc){
		"context": func(_ *chaos.Provider, cancel context.CancelFunc) { cancel() },
		"close":   func(p *chaos.Provider, _ context.CancelFunc) { _ = p.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			p, b := wrapped(t, twice)
			_, err := b.Provider.Acquire(t.Context(), claim("n", "id"))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(second, func() { goes(p, cancel) })
			results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{b.renewal("n", "id")})
			require.NoError(t, err, name)
			assert.ErrorIs(t, results[0].Err, leasing.ErrUnavailable, name)
			assert.ErrorIs(t, results[0].Err, chaos.ErrInjected, name)
			assert.Len(t, b.times(chaos.OpRenewBatch), 1, name)
		})
	}
}
