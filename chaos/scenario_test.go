package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// eventLog records the events of a scenario, line by line with times.
type eventLog struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (tr *eventLog) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	at := time.Since(tr.start)
	tr.lines = append(tr.lines, fmt.Sprintf("%09.3f ", at.Seconds())+fmt.Sprintf(format, args...))
}

// String returns the lines, sorted by time and then by text.
func (tr *eventLog) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(tr.lines)), "\n")
}

// scenario lets three owners compete for two names through one wrapper, for half a minute of
// virtual time, with every verb and ability. It returns the events that callers and observers saw,
// and the report.
func scenario(t *testing.T, plan chaos.Plan) (history string, report chaos.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := &eventLog{start: time.Now()}
		p, err := chaos.Wrap(memlease.New(memlease.Options{History: 50}), plan, chaos.Options{
			Owner: "somebody",
			Observer: func(i chaos.Injection) {
				tr.add("fault %s %s %s %q by %q, nth %d, since %v, delay %v, after %v", i.Rule, i.Kind, i.Op, i.Name, i.Owner, i.Nth, i.Since, i.Delay, i.After)
			},
		})
		require.NoError(t, err)
		var workers sync.WaitGroup
		for w := range 3 {
			workers.Go(func() { worker(t, tr, p, w) })
		}
		workers.Wait()
		require.NoError(t, p.Settle(t.Context()))
		report = p.Report()
		require.NoError(t, p.Close())
		synctest.Wait()
		tr.add("%s", asJSON(t, report))
		history = tr.String()
	})
	return history, report
}

// worker sends requests of all kinds in each of ten rounds. No two workers send at the same
// time, so that the order of all requests is the same in each run.
func worker(t *testing.T, tr *eventLog, p *chaos.Provider, w int) {
	time.Sleep(time.Duration(w+1) * 7 * time.Millisecond)
	owner := fmt.Sprintf("owner-%d", w+1)
	for round := range 10 {
		name := fmt.Sprintf("name/%d", (w+round)%2+1)
		id := fmt.Sprintf("%s-%d", owner, round)
		call := func(what string, do func(ctx context.Context) (any, error)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			result, err := do(ctx)
			tr.add("%s %s %s: %v %v", owner, what, name, result, err)
			time.Sleep(101 * time.Millisecond)
			return err
		}
		waiting, stop := context.WithCancel(t.Context())
		_ = call("wait", func(context.Context) (any, error) {
			wakeups, err := p.Wait(waiting, abstractions.WaitRequest{Name: name, ID: id})
			if err == nil {
				go func() {
					for {
						select {
						case <-wakeups.C:
							tr.add("%s wake-up %s %d", owner, name, round)
						case <-waiting.Done():
							return
						}
					}
				}()
			}
			return nil, err
		})
		var grant abstractions.Grant
		err := call("acquire", func(ctx context.Context) (_ any, err error) {
			grant, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: owner, TTL: 1500 * time.Millisecond, Metadata: map[string]string{"round": fmt.Sprint(round)}})
			return grant, err
		})
		renewal := abstractions.RenewRequest{Name: name, ID: id, Token: grant.Token, TTL: 1500 * time.Millisecond, State: grant.State}
		if err == nil {
			_ = call("renew", func(ctx context.Context) (any, error) { return p.Renew(ctx, renewal) })
			_ = call("batch", func(ctx context.Context) (any, error) { return p.RenewBatch(ctx, []abstractions.RenewRequest{renewal}) })
		}
		_ = call("inspect", func(ctx context.Context) (any, error) { return p.Inspect(ctx, abstractions.InspectRequest{Name: name}) })
		_ = call("list", func(ctx context.Context) (any, error) {
			result, err := p.List(ctx, abstractions.ListRequest{Prefix: "name/"})
			slices.SortFunc(result.Records, func(a, b leasing.Record) int { return strings.Compare(a.Name, b.Name) })
			return result, err // sorted, since the provider's order differs from run to run
		})
		_ = call("history", func(ctx context.Context) (any, error) {
			return p.History(ctx, abstractions.HistoryRequest{Name: name, Limit: 3})
		})
		_ = call("ping", func(ctx context.Context) (any, error) { return nil, p.Ping(ctx) })
		if round%4 == 3 {
			_ = call("break", func(ctx context.Context) (any, error) { return p.Break(ctx, abstractions.BreakRequest{Name: name}) })
		}
		_ = call("release", func(ctx context.Context) (any, error) {
			return nil, p.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id, Token: grant.Token, State: grant.State})
		})
		stop()
		time.Sleep(time.Duration(500+13*w) * time.Millisecond)
	}
}

// everything is a plan with all kinds of faults.
func everything(seed uint64) chaos.Plan {
	plan := chaos.FlakyNetwork(chaos.FlakyNetworkOptions{Seed: seed, Probability: 0.1})
	plan.Rules = slices.Concat(plan.Rules,
		chaos.SlowBackend(chaos.SlowBackendOptions{Delay: 20 * time.Millisecond}).Rules[1:],
		chaos.StealLease(chaos.StealLeaseOptions{}).Rules,
		chaos.ThrottledAccount(chaos.ThrottledAccountOptions{Probability: 0.05}).Rules,
		chaos.TotalOutage(chaos.TotalOutageOptions{For: time.Second}).Rules,
		chaos.Partition(chaos.PartitionOptions{From: 5 * time.Second, For: time.Second}).Rules,
		[]chaos.Rule{
			{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, When: chaos.Policy{Probability: 0.2}},
			{Fault: chaos.Fault{Kind: chaos.FaultHang}, When: chaos.Policy{Every: 29}},
		})
	return plan
}

func TestSameSeedAndPlan_SameHistory_memory(t *testing.T) {
	first, report := scenario(t, everything(7))
	require.Empty(t, report.Unused(), "each rule took part")
	for range 5 {
		again, _ := scenario(t, everything(7))
		require.Equal(t, first, again)
	}
	other, _ := scenario(t, everything(8))
	require.NotEqual(t, first, other, "another seed")
}
