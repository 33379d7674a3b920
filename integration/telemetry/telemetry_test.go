// Package telemetry checks what an OpenTelemetry SDK sees of the library.
package telemetry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// One lease that is contended, renewed, fails a renewal, and is lost, and one
// that is released, show in every instrument.
func TestTheSDKSeesEveryInstrument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		m, p := leasingtest.NewManager(t, leasing.Options{
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			TracerProvider: tracers,
		})
		ctx, caller := tracers.Tracer("test").Start(t.Context(), "caller")
		lease, err := m.Acquire(ctx, "jobs/report/1", nil)
		require.NoError(t, err)
		_, err = m.Acquire(ctx, "jobs/report/1", &leasing.AcquireOptions{WaitLimit: time.Second})
		require.ErrorIs(t, err, leasing.ErrHeld)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errors.New("reset")))
		time.Sleep(time.Minute)
		leasingtest.Lose(t, p, lease, leasing.LostTaken)
		m.Subscribe(func(leasing.Event) { panic("observer") })
		other, err := m.Acquire(ctx, "jobs/report/2", nil)
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
				require.True(t, ok || instrument.Name == "leasing.observer.panics", instrument.Name)
				require.Contains(t, []string{"jobs/report", ""}, scope.AsString(), "keys stay out of metrics")
			}
		}
		require.Equal(t, map[string]string{
			"leasing.acquire.duration": "s", "leasing.acquire.success": "", "leasing.acquire.failure": "",
			"leasing.renewal.duration": "s", "leasing.renewal.success": "", "leasing.renewal.failure": "", "leasing.renewal.margin": "s",
			"leasing.lost": "", "leasing.release.duration": "s", "leasing.active.count": "", "leasing.waiters": "",
			"leasing.held.duration": "s", "leasing.observer.panics": "",
		}, units)

		names := map[string]int{}
		for _, span := range spans.Ended() {
			names[span.Name()]++
			if span.Name() == "lease.renew" && len(span.Links()) > 0 {
				require.Equal(t, caller.SpanContext().SpanID(), span.Links()[0].SpanContext.SpanID())
			}
		}
		require.Equal(t, 3, names["lease.acquire"])
		require.Equal(t, 1, names["lease.release"])
		require.GreaterOrEqual(t, names["lease.renew"], 4)
	})
}

func attributes(t *testing.T, data metricdata.Aggregation) (sets []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
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
