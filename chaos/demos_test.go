package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// demo returns a memory provider wrapped with one rule.
func demo(rule chaos.Rule) *chaos.Provider {
	provider, err := chaos.Wrap(memlease.New(memlease.Options{}), chaos.Plan{Seed: 7, Rules: []chaos.Rule{rule}}, chaos.Options{})
	if err != nil {
		panic(err)
	}
	return provider
}

// lease sends one request for a lease of one minute.
func lease(provider leasing.Provider, name string) error {
	req := abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "worker-1", TTL: time.Minute}
	_, err := provider.Acquire(context.Background(), req)
	return err
}

// Releases are slow, and other operations are not.
func Example_delay() {
	provider := demo(chaos.Rule{
		Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 50 * time.Millisecond},
		Match: chaos.Match{Ops: []chaos.Op{chaos.OpRelease}},
	})
	defer provider.Close()

	ctx := context.Background()
	_, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: "jobs/daily", ID: "claim-1", Owner: "worker-1", TTL: time.Minute})
	fmt.Println("acquired:", err == nil)
	began := time.Now()
	err = provider.Release(ctx, abstractions.ReleaseRequest{Name: "jobs/daily", ID: "claim-1", Token: 1})
	fmt.Println("released:", err == nil, "slow:", time.Since(began) >= 50*time.Millisecond)
	fmt.Println(provider.Report().ByOp)
	// Output:
	// acquired: true
	// released: true slow: true
	// map[release:1]
}

// The first three requests fail, and the fourth succeeds.
func Example_exception() {
	provider := demo(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{First: 3}})
	defer provider.Close()

	for attempt := 1; ; attempt++ {
		err := lease(provider, "jobs/daily")
		fmt.Println(attempt, "unavailable:", errors.Is(err, leasing.ErrUnavailable), "injected:", errors.Is(err, chaos.ErrInjected))
		if err == nil {
			break
		}
	}
	// Output:
	// 1 unavailable: true injected: true
	// 2 unavailable: true injected: true
	// 3 unavailable: true injected: true
	// 4 unavailable: false injected: false
}

// Each renewal hangs. The holder notices in time that its lease is lost.
func Example_timeout() {
	provider := demo(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultHang}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}}})
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{TTL: 300 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(context.Background())

	ran := manager.Do(context.Background(), "jobs/daily", func(ctx context.Context, _ *leasing.Lease) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(ran, leasing.ErrLost))
	// Output:
	// lost: true
}

// Faults come in a pattern: x stands for a fault, and a dot for success.
func Example_intermittent() {
	provider := demo(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultThrottle}, When: chaos.Policy{Sequence: "x.xx"}})
	defer provider.Close()

	for i := range 6 {
		fmt.Println(i+1, "throttled:", errors.Is(lease(provider, fmt.Sprint("jobs/", i)), leasing.ErrThrottled))
	}
	// Output:
	// 1 throttled: true
	// 2 throttled: false
	// 3 throttled: true
	// 4 throttled: true
	// 5 throttled: false
	// 6 throttled: false
}

// About a third of the requests fail by chance, and the seed repeats the failures.
func Example_seed() {
	provider := demo(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultRequestLost}, When: chaos.Policy{Probability: 0.3}})
	defer provider.Close()

	run := func() (fates string) {
		for i := range 20 {
			if errors.Is(lease(provider, fmt.Sprint("jobs/", i)), chaos.ErrInjected) {
				fates += "x"
			} else {
				fates += "."
			}
		}
		return fates
	}
	fmt.Println(run())
	provider.Reset() // like a new wrapper
	fmt.Println(run())
	// Output:
	// .xx..x......xx......
	// .xx..x......xx......
}

// busy is a custom fault: for about a third of the operations, another worker holds the lease.
type busy struct{}

func (busy) Inject(ctx context.Context, o chaos.Operation, next func(ctx context.Context) error) error {
	if o.Rand.IntN(3) > 0 {
		return next(ctx)
	}
	return leasing.ErrHeld
}

func ExampleCustomFault() {
	provider := demo(chaos.Rule{Name: "busy", Fault: chaos.Fault{Kind: chaos.FaultCustom, Custom: busy{}}})
	defer provider.Close()

	fmt.Println(provider.Plan().Rules[0])
	for i := range 4 {
		fmt.Println(i, "held:", errors.Is(lease(provider, fmt.Sprint("jobs/", i)), leasing.ErrHeld))
	}
	// Output:
	// busy: each operation meets chaos_test.busy
	// 0 held: true
	// 1 held: false
	// 2 held: false
	// 3 held: true
}

// everyOther is a custom policy that picks operations with an even number.
type everyOther struct{}

func (everyOther) Picks(o chaos.Operation) bool { return o.Nth%2 == 0 }

func ExampleCustomPolicy() {
	provider := demo(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Custom: everyOther{}}})
	defer provider.Close()

	fmt.Println(provider.Plan().Rules[0])
	for range 3 {
		fmt.Println(provider.Ping(context.Background()))
	}
	// Output:
	// error: each operation fails, picked by chaos_test.everyOther
	// <nil>
	// leasing: ping (memory): backend unavailable (injected by chaos: rule "error", error)
	// <nil>
}

func ExamplePlan_Warnings() {
	plan := chaos.Plan{Seed: 7, Rules: []chaos.Rule{
		{Name: "outage", Fault: chaos.Fault{Kind: chaos.FaultError}, Match: chaos.Match{Names: []string{"jobs/*"}}},
		{Name: "late", Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, Match: chaos.Match{Names: []string{"jobs/daily"}, OnlyOnRetry: true}},
	}}
	fmt.Println(plan)
	for _, warning := range plan.Warnings() {
		fmt.Println(warning)
	}
	// Output:
	// chaos: plan "", seed 7: 2 rules
	//   outage: each operation of jobs/* fails
	//   late: each operation of jobs/daily in attempts from 2 loses its reply
	// Plan.Rules[1]: Plan.Rules[0] takes its operations first, so this rule never fires
}
