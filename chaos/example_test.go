package chaos_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/fencing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func Example() {
	provider, err := chaos.Wrap(memlease.New(memlease.Options{}), chaos.LostReplies(chaos.LostRepliesOptions{Probability: 1}), chaos.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer provider.Close()

	_, err = provider.Acquire(context.Background(), abstractions.AcquireRequest{Name: "jobs/daily", ID: "attempt-1", Owner: "worker-1", TTL: time.Minute})
	fmt.Println(err)
	_ = provider.Disable()
	record, _ := provider.Inspect(context.Background(), abstractions.InspectRequest{Name: "jobs/daily"})
	fmt.Println("held by", record.Owner, "all the same")
	fmt.Println(provider.Report())
	// Output:
	// leasing: acquire "jobs/daily" (memory): backend unavailable (injected by chaos: rule "reply lost", reply_lost)
	// held by worker-1 all the same
	// chaos: plan "lost-replies", seed 0: 1 faults in 1 operations
	//   rules: reply lost 1
	//   kinds: reply_lost 1
	//   operations: acquire 1
	//   names: jobs/daily 1
	//   owners: worker-1 1
}

func ExampleParsePlan() {
	plan, err := chaos.ParsePlan([]byte(`{
		"name": "monday morning",
		"seed": 7,
		"rules": [
			{"fault": {"kind": "delay", "delay": "20ms", "jitter": "80ms"}, "when": {"probability": 0.5}},
			{"name": "failover", "fault": {"kind": "reply_lost"}, "when": {"from": "10s", "to": "12s"}},
			{"name": "operator", "fault": {"kind": "broken"}, "match": {"ops": ["renew"], "names": ["jobs/*"]}, "budget": {"total": 1}}
		]
	}`))
	fmt.Println(len(plan.Rules), err)
	_, err = chaos.ParsePlan([]byte(`{"rules": [{"fault": {"kind": "throttle", "delay": "1s"}}]}`))
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// invalid Plan.Rules[0].Fault.Delay 1s: want 0 for throttle, which does not use the field
}

// ledger is the resource that the worker below protects. It accepts an entry only with a token that
// is not older than the latest.
type ledger struct {
	gate    fencing.Gate
	entries int
}

func (l *ledger) write(ctx context.Context, token int64) error {
	return l.gate.Do(ctx, token, func(context.Context) error {
		l.entries++
		return nil
	})
}

// work stands for the worker that you want to test. This worker writes an entry
// each second while it holds the lease, releases the lease after twenty
// entries, and acquires another.
func work(ctx context.Context, manager *leasing.Manager, l *ledger) {
	for ctx.Err() == nil {
		_ = manager.Do(ctx, "jobs/ledger", func(ctx context.Context, lease *leasing.Lease) error {
			for range 20 {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Second):
				}
				if err := l.write(ctx, lease.Token()); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestMyWorkerSurvives is a test to copy. Two workers share one backend, under each ready-made
// plan, for an hour of virtual time.
func TestMyWorkerSurvives(t *testing.T) {
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan, err := chaos.Named(name, 7)
				require.NoError(t, err)
				provider, err := chaos.Wrap(memlease.New(memlease.Options{}), plan, chaos.Options{})
				require.NoError(t, err)

				var l ledger
				var workers sync.WaitGroup
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				for _, owner := range []string{"worker-1", "worker-2"} {
					manager, err := leasing.NewManager(provider, leasing.Options{Owner: owner})
					require.NoError(t, err)
					workers.Go(func() {
						work(ctx, manager, &l)
						closing, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						_ = manager.Close(closing) // leases that Close can't release will expire
					})
				}
				workers.Wait()

				t.Log(provider.Report())
				require.Empty(t, provider.Report().Unused(), "each fault took part")
				require.Greater(t, l.entries, 1800, "the work went on for more than half of the time")
				require.NoError(t, provider.Close())
			})
		})
	}
}
