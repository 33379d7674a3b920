package providertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// Benchmark measures what a provider costs: acquire and release of one name
// and of many side by side, renewals one by one and in batches of 256, and an
// acquire that is refused. Only New of the
// harness is used.
func Benchmark(b *testing.B, h Harness) {
	b.Run("Cycle", func(b *testing.B) { newBench(b, h).cycle(b) })
	b.Run("CycleParallel", func(b *testing.B) { newBench(b, h).cycleParallel(b) })
	b.Run("Renew", func(b *testing.B) { newBench(b, h).renew(b) })
	b.Run("RenewBatch256", func(b *testing.B) { newBench(b, h).renewBatch(b) })
	b.Run("Refused", func(b *testing.B) { newBench(b, h).refused(b) })
}

type bench struct {
	p      abstractions.Provider
	prefix string
	ttl    time.Duration
}

func newBench(b *testing.B, h Harness) *bench {
	b.ReportAllocs()
	p := h.New(b)
	b.Cleanup(func() { p.Close() })
	_, long := h.ttls(p.Capabilities())
	return &bench{p: p, prefix: "bench/" + abstractions.NewID()[:8] + "/", ttl: long}
}

func (x *bench) request(name string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: x.prefix + name, ID: abstractions.NewID(), Owner: "bench", TTL: x.ttl}
}

func (x *bench) take(b *testing.B, name string) abstractions.RenewRequest {
	req := x.request(name)
	grant, err := x.p.Acquire(b.Context(), req)
	require.NoError(b, err)
	return abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: x.ttl, State: grant.State}
}

// pass acquires and releases once, with a new ID as in real use.
func (x *bench) pass(ctx context.Context, req abstractions.AcquireRequest) error {
	req.ID = abstractions.NewID()
	grant, err := x.p.Acquire(ctx, req)
	if err != nil {
		return err
	}
	return x.p.Release(ctx, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State})
}

func (x *bench) cycle(b *testing.B) {
	req := x.request("one")
	for b.Loop() {
		if err := x.pass(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func (x *bench) cycleParallel(b *testing.B) {
	var next atomic.Int64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		req := x.request(fmt.Sprint(next.Add(1)))
		for pb.Next() {
			if err := x.pass(b.Context(), req); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func (x *bench) renew(b *testing.B) {
	req := x.take(b, "renewed")
	for b.Loop() {
		grant, err := x.p.Renew(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		req.State = grant.State
	}
}

// renewBatch reports the time of one claim, too.
func (x *bench) renewBatch(b *testing.B) {
	batcher, ok := abstractions.As[abstractions.BatchRenewer](x.p)
	if !ok {
		b.Skip("no BatchRenewer")
	}
	reqs := make([]abstractions.RenewRequest, 256)
	for i := range reqs {
		reqs[i] = x.take(b, fmt.Sprint(i))
	}
	for b.Loop() {
		results, err := batcher.RenewBatch(b.Context(), reqs)
		if err != nil {
			b.Fatal(err)
		}
		for i, result := range results {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
			reqs[i].State = result.Grant.State
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(reqs)), "ns/claim")
}

func (x *bench) refused(b *testing.B) {
	x.take(b, "held")
	req := x.request("held")
	for b.Loop() {
		if _, err := x.p.Acquire(b.Context(), req); err == nil {
			b.Fatal("granted")
		}
	}
}
