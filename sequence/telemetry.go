package sequence

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// instrumentationScope is the module's path, as OpenTelemetry advises.
const instrumentationScope = "github.com/distributedleasing/leasing/sequence"

// secondBounds are buckets in seconds. The alert about waits at the barrier needs a bound at 5.
var secondBounds = []float64{.01, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// telemetry has the OpenTelemetry instruments of one stream or cleaner. Four of their names come from the original design of this
// package. Package leasing has the instruments for the leases.
type telemetry struct {
	committed metric.Int64Counter
	late      metric.Int64Counter
	wait      metric.Float64Histogram

	claims   metric.Int64Counter
	expired  metric.Int64Counter
	overrun  metric.Float64Histogram
	success  metric.Int64Counter
	failure  metric.Int64Counter
	hooks    metric.Int64Counter
	open     metric.Int64Gauge
	overdue  metric.Int64Gauge
	gaps     metric.Int64Gauge
	recovery metric.Int64Gauge
}

func newTelemetry(provider metric.MeterProvider) *telemetry {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := provider.Meter(instrumentationScope)
	counter := func(name, about string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithDescription(about))
		return orNoop[metric.Int64Counter](c, err, noop.Int64Counter{})
	}
	gauge := func(name, about string) metric.Int64Gauge {
		g, err := m.Int64Gauge(name, metric.WithDescription(about))
		return orNoop[metric.Int64Gauge](g, err, noop.Int64Gauge{})
	}
	seconds := func(name, about string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(secondBounds...), metric.WithDescription(about))
		return orNoop[metric.Float64Histogram](h, err, noop.Float64Histogram{})
	}
	return &telemetry{
		committed: counter("sequence.committed", "Numbers that their writers have committed in time."),
		late:      counter("sequence.commit.late", "Commits that came too late, and changed nothing."),
		wait:      seconds("sequence.barrier.wait", "Time that a writer has waited for lower numbers to close."),

		claims:   counter("sequence.claims", "Claims by cleaners: attempts to recover a number."),
		expired:  counter("expired_leases", "Expired numbers that were closed, by outcome."),
		overrun:  seconds("lease_overrun", "Time from the end of a lease to the first claim of its number."),
		success:  counter("recovery_success", "Recoveries that succeeded, by step."),
		failure:  counter("recovery_failure", "Recoveries that failed, by step."),
		hooks:    counter("sequence.hooks.failure", "Numbers whose hooks failed, and will be retried."),
		open:     gauge("sequence.open", "Numbers that are leased or recovering."),
		overdue:  gauge("sequence.expired", "Unclaimed numbers whose leases have run out."),
		gaps:     gauge("sequence.gaps", "Gaps that may still be filled."),
		recovery: gauge("sequence.recovery.mode", "1 in recovery mode, else 0."),
	}
}

// orNoop returns an instrument, or a stand-in that does nothing.
func orNoop[T any](instrument T, err error, standIn T) T {
	if err != nil {
		otel.Handle(err)
		return standIn
	}
	return instrument
}

const (
	streamKey  = attribute.Key("sequence.stream")
	kindKey    = attribute.Key("projection_type")
	outcomeKey = attribute.Key("recovery_outcome")
	stepKey    = attribute.Key("method")
)

// attributes returns a number's attributes for a metric.
func attributes(stream, kind string) metric.MeasurementOption {
	return metric.WithAttributes(streamKey.String(stream), kindKey.String(kind))
}

// claimed records a claim, and its delay if it is the first claim of the number.
func (t *telemetry) claimed(ctx context.Context, e *Entry, claimFor time.Duration) {
	of := attributes(e.Stream, e.Kind)
	t.claims.Add(ctx, 1, of)
	if e.Token == seqstore.FirstToken+1 {
		overrun := e.ClaimUntil.Add(-claimFor).Sub(e.ExpiresAt)
		t.overrun.Record(ctx, max(0, overrun).Seconds(), of)
	}
}

// resolved records that a step has ended a claim.
func (t *telemetry) resolved(ctx context.Context, e *Entry, outcome Outcome, step string, failed bool) {
	of := metric.WithAttributes(streamKey.String(e.Stream), kindKey.String(e.Kind), stepKey.String(step))
	if failed {
		t.failure.Add(ctx, 1, of)
	} else if outcome == OutcomeRecovered {
		t.success.Add(ctx, 1, of)
	}
	if outcome != seqstore.OutcomeFailed {
		t.expired.Add(ctx, 1, metric.WithAttributes(streamKey.String(e.Stream), kindKey.String(e.Kind), outcomeKey.String(string(outcome))))
	}
}

// observe records the status of a stream in a sweep.
func (t *telemetry) observe(ctx context.Context, s Status) {
	of := metric.WithAttributes(streamKey.String(s.Stream))
	mode := int64(0)
	if !s.RecoveryUntil.IsZero() {
		mode = 1
	}
	t.open.Record(ctx, int64(s.Open), of)
	t.overdue.Record(ctx, int64(s.Expired), of)
	t.gaps.Record(ctx, int64(s.Gaps), of)
	t.recovery.Record(ctx, mode, of)
}
