// Package telemetry checks the metrics and spans that an OpenTelemetry SDK gets from the library.
package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/fencing"
)

// ofTheManager lists the instruments that have no scope.
var ofTheManager = []string{"leasing.observer.panics", "leasing.cleanups", "leasing.backend.up", "leasing.waiters.oldest"}

// One lease is contended, is renewed, fails a renewal and is lost, and a second lease is released. Together they produce points
// of every instrument.
func TestTheSDKSeesEveryInstrument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		m, p := leasingtest.NewManager(t, leasing.Options{
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			TracerProvider: tracers,
		})
		ctx, caller := tracers.Tracer("test").Start(t.Context(), "caller")
		lease, err := m.Acquire(ctx, "jobs/report/1")
		require.NoError(t, err)
		_, err = m.With(leasing.AcquireOptions{WaitLimit: time.Second}).Acquire(ctx, "jobs/report/1")
		require.ErrorIs(t, err, leasing.ErrHeld)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errors.New("reset")))
		time.Sleep(time.Minute)
		leasingtest.Lose(t, p, lease, leasing.LostTaken)
		m.Subscribe(func(leasing.Event) { panic("observer") })
		other, err := m.Acquire(ctx, "jobs/report/2")
		require.NoError(t, err)
		require.NoError(t, other.Release(ctx))
		caller.End()
		synctest.Wait()

		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		require.Len(t, all.ScopeMetrics, 1)
		require.Equal(t, "github.com/distributedleasing/leasing", all.ScopeMetrics[0].Scope.Name)
		units := map[string]string{}
		for _, instrument := range all.ScopeMetrics[0].Metrics {
			units[instrument.Name] = instrument.Unit
			for _, set := range attributes(t, instrument.Data) {
				scope, ok := set.Value("leasing.scope")
				require.True(t, ok || slices.Contains(ofTheManager, instrument.Name), instrument.Name)
				require.Contains(t, []string{"jobs", ""}, scope.AsString(), "keys stay out of metrics")
			}
		}
		require.Equal(t, map[string]string{
			"leasing.acquire.duration": "s", "leasing.acquire.success": "{lease}", "leasing.acquire.failure": "{acquire}",
			"leasing.renewal.duration": "s", "leasing.renewal.success": "{renewal}", "leasing.renewal.failure": "{attempt}", "leasing.renewal.margin": "s",
			"leasing.lost": "{lease}", "leasing.release.duration": "s", "leasing.active.count": "{lease}", "leasing.waiters": "{acquire}",
			"leasing.held.duration": "s", "leasing.observer.panics": "{panic}", "leasing.cleanups": "{claim}",
			"leasing.backend.up": "{backend}", "leasing.waiters.oldest": "s",
		}, units)

		names := map[string]int{}
		for _, span := range spans.Ended() {
			names[span.Name()]++
			if span.Name() == "leasing.renew" && len(span.Links()) > 0 {
				require.Equal(t, caller.SpanContext().SpanID(), span.Links()[0].SpanContext.SpanID())
			}
		}
		require.Equal(t, 3, names["leasing.acquire"])
		require.Equal(t, 1, names["leasing.release"])
		require.GreaterOrEqual(t, names["leasing.renew"], 4)
	})
}

func attributes(t *testing.T, data metricdata.Aggregation) (sets []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	case metricdata.Gauge[int64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	default:
		require.Failf(t, "unexpected", "%T", data)
	}
	return sets
}

// collect returns the current values of one instrument in an SDK, by their attributes.
func collect(t *testing.T, reader *sdkmetric.ManualReader, instrument string) map[string]string {
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == instrument {
				return pointsOf(t, m.Data)
			}
		}
	}
	return nil
}

// The span of a wait has a link to the acquire of each lease that it waited for, even if another manager acquired that lease.
func TestAWaitIsLinkedToItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		options := leasing.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}
		holder, p := leasingtest.NewManager(t, options)
		waiter := leasingtest.NewManagerOn(t, p, options)
		first, err := holder.With(leasing.AcquireOptions{Metadata: map[string]string{"a": "1"}}).Acquire(t.Context(), "n")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, first.Metadata(), "the application's own")
		require.NoError(t, first.SetMetadata(t.Context(), map[string]string{"a": "2"}))
		acquired := make(chan *leasing.Lease)
		go func() {
			l, err := waiter.Acquire(t.Context(), "n")
			assert.NoError(t, err)
			acquired <- l
		}()
		time.Sleep(10 * time.Second)
		require.NoError(t, first.Release(t.Context()))
		second := <-acquired
		require.NoError(t, second.Release(t.Context()))

		acquires := slices.DeleteFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != "leasing.acquire" })
		require.Len(t, acquires, 2)
		require.Empty(t, acquires[0].Links())
		require.Len(t, acquires[1].Links(), 1, "one for each holder, however often the waiter asks")
		link := acquires[1].Links()[0]
		require.Equal(t, acquires[0].SpanContext().SpanID(), link.SpanContext.SpanID())
		require.Equal(t, acquires[0].SpanContext().TraceID(), link.SpanContext.TraceID())
		require.Contains(t, link.Attributes, attribute.Int64("leasing.token", first.Token()))

		// A lease without a sampled span, or without room in its metadata, has no trace context.
		quiet := leasingtest.NewManagerOn(t, p, leasing.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))})
		full := map[string]string{"full": strings.Repeat("x", leasing.MaxMetadataBytes-4)}
		for m, metadata := range map[*leasing.Manager]map[string]string{quiet: nil, holder: full} {
			l, err := m.With(leasing.AcquireOptions{Metadata: metadata}).Acquire(t.Context(), "n")
			require.NoError(t, err)
			record, err := m.Inspect(t.Context(), "n")
			require.NoError(t, err)
			require.NotContains(t, record.Metadata, "traceparent")
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

func TestGaugesShowAManagerUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		m, p := leasingtest.NewManager(t, leasing.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
		up := func() string { return collect(t, reader, "leasing.backend.up")["memory"] }
		oldest := func() string { return collect(t, reader, "leasing.waiters.oldest")["memory"] }
		require.Equal(t, "1", up())
		lease, err := m.TryAcquire(t.Context(), "jobs/1")
		require.NoError(t, err)
		mended := p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errors.New("reset")))
		require.Error(t, lease.Renew(t.Context()))
		require.Equal(t, "0", up())
		mended()
		require.NoError(t, lease.Renew(t.Context()))
		require.Equal(t, "1", up())

		require.Equal(t, "0", oldest())
		waited := make(chan *leasing.Lease)
		go func() {
			lease, _ := m.Acquire(t.Context(), "jobs/1")
			waited <- lease
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "60", oldest())
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, (<-waited).Release(t.Context()))
		require.Equal(t, "0", oldest())
		require.NoError(t, m.Close(t.Context()))
		require.Empty(t, up()+oldest())
	})
}

// Series are counted as in Prometheus: a histogram has a series for each bucket, the infinite bucket included, for the sum and
// for the count.
func TestManyNamesOfOneComponentAreFewSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		m, p := leasingtest.NewManager(t, leasing.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
		p.Use(leasingtest.Fail(leasingtest.Renew, 3, errors.New("reset")))
		var leases []*leasing.Lease
		for i := range 10_000 {
			lease, err := m.Acquire(t.Context(), fmt.Sprintf("orders/%d", i))
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		time.Sleep(time.Minute)
		for _, lease := range leases {
			require.NoError(t, lease.Release(t.Context()))
		}
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		series := 0
		for _, m := range all.ScopeMetrics[0].Metrics {
			for range attributes(t, m.Data) {
				series++
				if h, is := m.Data.(metricdata.Histogram[float64]); is {
					series += len(h.DataPoints[0].Bounds) + 2
				}
			}
		}
		t.Logf("%d series", series)
		require.Less(t, series, 100)
	})
}

func TestRefusalsByAFenceAreCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, fencing.Check("r", 2, 2))
	require.Error(t, fencing.Check("r", 1, 2))
	require.Error(t, fencing.Check("r", 1, 2))
	require.Equal(t, map[string]string{"": "2"}, collect(t, reader, "leasing.fence.refused"))
}
