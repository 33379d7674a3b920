package chaos_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// freeProvider is a provider that does nothing, so that the benchmark measures the wrapper.
type freeProvider struct{ leasing.Provider }

func (freeProvider) Capabilities() leasing.Capabilities {
	return leasing.Capabilities{Provider: "free"}
}
func (freeProvider) Close() error { return nil }

func (freeProvider) Acquire(context.Context, abstractions.AcquireRequest) (abstractions.Grant, error) {
	return abstractions.Grant{}, nil
}

func (freeProvider) Renew(context.Context, abstractions.RenewRequest) (abstractions.Grant, error) {
	return abstractions.Grant{}, nil
}
func (freeProvider) Release(context.Context, abstractions.ReleaseRequest) error { return nil }

func (freeProvider) Break(context.Context, abstractions.BreakRequest) (leasing.BreakResult, error) {
	return leasing.BreakResult{}, nil
}

func (freeProvider) Inspect(context.Context, abstractions.InspectRequest) (leasing.Record, error) {
	return leasing.Record{}, nil
}

func (freeProvider) RenewBatch(context.Context, []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return nil, nil
}

func (freeProvider) Wait(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return abstractions.Wakeups{}, nil
}

func (freeProvider) Waiters(context.Context, abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return nil, nil
}

func (freeProvider) List(context.Context, abstractions.ListRequest) (abstractions.ListResult, error) {
	return abstractions.ListResult{}, nil
}
func (freeProvider) Ping(context.Context) error { return nil }

func (freeProvider) History(context.Context, abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	return abstractions.HistoryResult{}, nil
}

// client is a provider with all abilities.
type client interface {
	leasing.Provider
	abstractions.BatchRenewer
	abstractions.Waiter
	abstractions.WaiterLister
	abstractions.Lister
	abstractions.Pinger
	abstractions.HistoryReader
}

// calls lists one call per operation.
var calls = []struct {
	name string
	do   func(ctx context.Context, p client)
}{
	{"Acquire", func(ctx context.Context, p client) {
		_, _ = p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "id", Owner: "o", TTL: second})
	}},
	{"Renew", func(ctx context.Context, p client) {
		_, _ = p.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: "id", TTL: second})
	}},
	{"Release", func(ctx context.Context, p client) {
		_ = p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "id"})
	}},
	{"Break", func(ctx context.Context, p client) { _, _ = p.Break(ctx, abstractions.BreakRequest{Name: "n"}) }},
	{"Inspect", func(ctx context.Context, p client) { _, _ = p.Inspect(ctx, abstractions.InspectRequest{Name: "n"}) }},
	{"RenewBatch", func(ctx context.Context, p client) { _, _ = p.RenewBatch(ctx, nil) }},
	{"Wait", func(ctx context.Context, p client) { _, _ = p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "id"}) }},
	{"List", func(ctx context.Context, p client) { _, _ = p.List(ctx, abstractions.ListRequest{}) }},
	{"Waiters", func(ctx context.Context, p client) { _, _ = p.Waiters(ctx, abstractions.WaitersRequest{Name: "n"}) }},
	{"Ping", func(ctx context.Context, p client) { _ = p.Ping(ctx) }},
	{"History", func(ctx context.Context, p client) { _, _ = p.History(ctx, abstractions.HistoryRequest{Name: "n"}) }},
}

func wrappedForFree(t testing.TB, rules ...chaos.Rule) *chaos.Provider {
	p, err := chaos.Wrap(freeProvider{}, chaos.Plan{Rules: rules}, chaos.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestNoAllocationWithoutFaults: a wrapper does not allocate if its plan is empty or disabled.
func TestNoAllocationWithoutFaults(t *testing.T) {
	disabled := wrappedForFree(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}})
	require.NoError(t, disabled.Disable())
	ctx := t.Context()
	enabled := wrappedForFree(t)
	require.NoError(t, enabled.Enable())
	for what, p := range map[string]*chaos.Provider{"empty": wrappedForFree(t), "enabled": enabled, "disabled": disabled} {
		for _, call := range calls {
			assert.Zero(t, testing.AllocsPerRun(100, func() { call.do(ctx, p) }), "%s %s", what, call.name)
		}
	}
}

// BenchmarkOverhead measures the wrapper's cost per call when the wrapped provider does no work:
// with an empty plan, and with one rule that decides about each call and never fires.
func BenchmarkOverhead(b *testing.B) {
	for what, p := range map[string]client{
		"direct": freeProvider{}, "empty": wrappedForFree(b),
		"asked": wrappedForFree(b, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Skip: 1 << 40}}),
	} {
		for _, call := range calls {
			b.Run(what+"/"+call.name, func(b *testing.B) {
				b.ReportAllocs()
				ctx := b.Context()
				for b.Loop() {
					call.do(ctx, p)
				}
			})
		}
	}
}
