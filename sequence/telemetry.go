package sequence

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// instrumentationScope is the module's path, as OpenTelemetry advises.
const instrumentationScope = "github.com/distributedleasing/leasing/sequence"

// overrunBounds are buckets in seconds.
var overrunBounds = []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// telemetry is OpenTelemetry for one cleaner, whose first instruments keep the names that they have in
// the design that this package began with. Package leasing tells what leases do.
type telemetry struct {
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
		return orNothing[metric.Int64Counter](c, err, noop.Int64Counter{})
	}
	gauge := func(name, about string) metric.Int64Gauge {
		g, err := m.Int64Gauge(name, metric.WithDescription(about))
		return orNothing[metric.Int64Gauge](g, err, noop.Int64Gauge{})
	}
	overrun, err := m.Float64Histogram("lease_overrun", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(overrunBounds...),
		metric.WithDescription("Time from the end of a lease to the first claim of its number."))
	return &telemetry{
		expired:  counter("expired_leases", "Expired numbers that were closed, by outcome."),
		overrun:  orNothing[metric.Float64Histogram](overrun, err, noop.Float64Histogram{}),
		success:  counter("recovery_success", "Recoveries that succeeded, by step."),
		failure:  counter("recovery_failure", "Recoveries that failed, by step."),
		hooks:    counter("sequence.hooks.failure", "Numbers whose hooks failed, and will run again."),
		open:     gauge("sequence.open", "Numbers that are leased or recovering."),
		overdue:  gauge("sequence.expired", "Numbers whose leases have run out, and that nobody has claimed."),
		gaps:     gauge("sequence.gaps", "Gaps that may still be filled."),
		recovery: gauge("sequence.recovery.mode", "1 in recovery mode, else 0."),
	}
}

// orNothing returns an instrument, or a stand-in that does nothing.
func orNothing[T any](instrument T, err error, standIn T) T {
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

// claimed tells of a claim, and how late it came if it is the first of the number.
func (t *telemetry) claimed(ctx context.Context, e *Entry, claimFor time.Duration) {
	if e.Token == firstToken+1 {
		overrun := e.ClaimUntil.Add(-claimFor).Sub(e.ExpiresAt)
		t.overrun.Record(ctx, max(0, overrun).Seconds(), metric.WithAttributes(streamKey.String(e.Stream), kindKey.String(e.Kind)))
	}
}

// resolved tells of a claim that has ended by a step.
func (t *telemetry) resolved(ctx context.Context, e *Entry, outcome Outcome, step string, failed bool) {
	of := metric.WithAttributes(streamKey.String(e.Stream), kindKey.String(e.Kind), stepKey.String(step))
	if failed {
		t.failure.Add(ctx, 1, of)
	} else if outcome == OutcomeRecovered {
		t.success.Add(ctx, 1, of)
	}
	if outcome != OutcomeFailed {
		t.expired.Add(ctx, 1, metric.WithAttributes(streamKey.String(e.Stream), kindKey.String(e.Kind), outcomeKey.String(string(outcome))))
	}
}

// hookFailed tells of a number whose hooks will run again.
func (t *telemetry) hookFailed(ctx context.Context, e *Entry) {
	t.hooks.Add(ctx, 1, metric.WithAttributes(streamKey.String(e.Stream)))
}

// observe tells of a stream as a sweep has found it.
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
