package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// faults maps names to the rules to test. Each rule is tested in a plan of its own.
var faults = map[string]chaos.Rule{
	"delay":        {Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 200 * time.Millisecond, Jitter: time.Second}},
	"exception":    {Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Probability: 0.5}},
	"timeout":      {Fault: chaos.Fault{Kind: chaos.FaultHang}, When: chaos.Policy{Probability: 0.2}},
	"intermittent": {Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Every: 3}},
	"lost replies": {Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, When: chaos.Policy{Probability: 0.4}},
	"partition":    {Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, Match: chaos.Match{Owners: []string{"first"}}},
	"stolen lease": {Fault: chaos.Fault{Kind: chaos.FaultBroken, RunOut: true}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}}, When: chaos.Policy{Every: 4}},
	"outage":       {Fault: chaos.Fault{Kind: chaos.FaultError}},
}

// TestTheServiceSurvives runs two processes of the service over memory in virtual time. With another backend, named by
// LEASING_URL, it runs in real time.
func TestTheServiceSurvives(t *testing.T) {
	for name, rule := range faults {
		t.Run(name, func(t *testing.T) {
			if url := os.Getenv("LEASING_URL"); url != "" {
				t.Parallel()
				provider, err := openURL(t.Context(), url)
				require.NoError(t, err)
				checkSurvives(t, provider, rule)
				return
			}
			synctest.Test(t, func(t *testing.T) { checkSurvives(t, memlease.New(memlease.Options{}), rule) })
		})
	}
}

// checkSurvives checks that no two processes lead at the same time, that no entry comes from an earlier leader, and that the
// service works again after the faults.
func checkSurvives(t *testing.T, provider leasing.Provider, rule chaos.Rule) {
	ttl := max(2*time.Second, provider.Capabilities().MinTTL)
	rule.Name, rule.When.From, rule.When.To = "fault", ttl, 4*ttl
	faulty, err := chaos.Wrap(provider, chaos.Plan{Name: t.Name(), Seed: 7, Rules: []chaos.Rule{rule}}, chaos.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, faulty.Close()) }()
	leaseName := fmt.Sprint(t.Name(), time.Now().UnixNano())
	ledger, services, all := &Ledger{}, []*Service{}, sync.WaitGroup{}
	ctx, stop := context.WithCancel(t.Context())
	for _, owner := range []string{"first", "second"} {
		manager, err := leasing.NewManager(faulty, leasing.Options{Owner: owner, TTL: ttl})
		require.NoError(t, err)
		defer func() { require.NoError(t, manager.Close(context.WithoutCancel(ctx))) }()
		service := &Service{Manager: manager, Name: leaseName, Ledger: ledger, Every: ttl / 20}
		services = append(services, service)
		all.Go(func() { service.Run(ctx) })
	}
	ended := make(chan struct{})
	defer func() {
		stop()
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * ttl):
			t.Error("the service goes on although its context has ended")
		}
	}()
	until := func(end time.Duration, check func() bool) {
		for began := time.Now(); check() && time.Since(began) < end; wait(ctx, ttl/50) {
			require.False(t, services[0].leading.Load() && services[1].leading.Load(), "two processes lead")
		}
	}
	until(5*ttl, func() bool { return true })
	require.Empty(t, faulty.Report().Unused(), "the fault took part")
	before := ledger.Len()
	until(10*ttl, func() bool { return ledger.Len() < before+10 })
	require.GreaterOrEqual(t, ledger.Len(), before+10, "entries after the faults")
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	require.True(t, slices.IsSorted(ledger.entries), "the tokens of the entries rise")
}
