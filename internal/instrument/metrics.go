// Package instrument has the OpenTelemetry instrumentation of a manager: its metrics, its spans, and the trace of each lease.
package instrument

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// instrumentationScope is the module's path, as OpenTelemetry advises.
const instrumentationScope = "github.com/distributedleasing/leasing"

// Bucket bounds in seconds, for requests, for the trust that is left, and for the time that leases are held. They are few, since
// each bound adds a time series to each scope.
var (
	requestBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .5, 1, 5, 30}
	marginBounds  = []float64{.1, .5, 1, 2.5, 5, 10, 30}
	heldBounds    = []float64{.1, 1, 10, 60, 600, 3600, 86400}
)

// Values of the attribute leasing.scope that are not scopes: one for names without a
// slash, each of which would be its own scope, and one for all scopes after the first
// MaxScopes.
const (
	noScope    = "_none"
	otherScope = "_other"
	MaxScopes  = 64
)

// Telemetry has the OpenTelemetry instruments of one manager. An instrument of a disabled meter
// costs one check; attribute sets are made once for each scope.
type Telemetry struct {
	tracer   trace.Tracer
	provider attribute.KeyValue
	scopeOf  func(name string) string

	acquireDuration metric.Float64Histogram
	acquireSuccess  metric.Int64Counter
	acquireFailure  metric.Int64Counter
	attemptFailure  metric.Int64Counter
	renewalDuration metric.Float64Histogram
	renewalSuccess  metric.Int64Counter
	renewalFailure  metric.Int64Counter
	renewalMargin   metric.Float64Histogram
	lostCount       metric.Int64Counter
	brokenCount     metric.Int64Counter
	releaseDuration metric.Float64Histogram
	activeCount     metric.Int64UpDownCounter
	waiterCount     metric.Int64UpDownCounter
	cleanupCount    metric.Int64UpDownCounter
	heldDuration    metric.Float64Histogram
	observerPanics  metric.Int64Counter

	base   attrs // without a scope
	gauges metric.Registration

	mu     sync.RWMutex
	scopes map[string]*Scope
}

// Config has the values and functions that telemetry needs from its manager.
type Config struct {
	Provider       string // the kind of provider
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Scope          func(name string) string
	// OldestWaiter returns the age of the oldest acquire that waits, and BackendUp returns 1 while the backend answers, else 0.
	OldestWaiter func() time.Duration
	BackendUp    func() int64
}

// New returns the telemetry of a manager.
func New(c Config) *Telemetry {
	version := moduleVersion()
	meter := c.MeterProvider.Meter(instrumentationScope, metric.WithInstrumentationVersion(version))
	requests, margins, heldFor := metric.WithExplicitBucketBoundaries(requestBounds...), metric.WithExplicitBucketBoundaries(marginBounds...), metric.WithExplicitBucketBoundaries(heldBounds...)
	provider := attribute.String("leasing.provider", c.Provider)
	t := &Telemetry{
		tracer:   c.TracerProvider.Tracer(instrumentationScope, trace.WithInstrumentationVersion(version)),
		provider: provider,
		scopeOf:  c.Scope,
		base:     newAttrs(provider),
		scopes:   map[string]*Scope{},

		acquireDuration: histogram(meter, "leasing.acquire.duration", "Time from asking for a lease to having it or giving up, waiting included.", requests),
		acquireSuccess:  counter(meter, "leasing.acquire.success", "{lease}", "Leases acquired."),
		acquireFailure:  counter(meter, "leasing.acquire.failure", "{acquire}", "Acquires that ended without a lease."),
		attemptFailure:  counter(meter, "leasing.acquire.attempt.failure", "{request}", "Requests of waiting acquires that the backend did not answer."),
		renewalDuration: histogram(meter, "leasing.renewal.duration", "Time of one attempt to renew a lease.", requests),
		renewalSuccess:  counter(meter, "leasing.renewal.success", "{renewal}", "Renewals."),
		renewalFailure:  counter(meter, "leasing.renewal.failure", "{attempt}", "Attempts to renew that failed."),
		renewalMargin:   histogram(meter, "leasing.renewal.margin", "Trust that was left in a lease when a renewal came back; the least of those that shared a request.", margins),
		lostCount:       counter(meter, "leasing.lost", "{lease}", "Leases that ended without a release."),
		brokenCount:     counter(meter, "leasing.broken", "{lease}", "Leases that this manager broke, of any holder."),
		releaseDuration: histogram(meter, "leasing.release.duration", "Time from beginning a release to its end at the backend.", requests),
		activeCount:     upDown(meter, "leasing.active.count", "{lease}", "Leases held."),
		waiterCount:     upDown(meter, "leasing.waiters", "{acquire}", "Acquires that wait."),
		cleanupCount:    upDown(meter, "leasing.cleanups", "{claim}", "Claims without a holder that are still to be released at the backend."),
		heldDuration:    histogram(meter, "leasing.held.duration", "Time for which a lease was held.", heldFor),
		observerPanics:  counter(meter, "leasing.observer.panics", "{panic}", "Panics of observers."),
	}
	add(t.cleanupCount, 0, &t.base)
	add(t.observerPanics, 0, &t.base)
	t.registerGauges(meter, c)
	return t
}

// registerGauges registers the observable gauges of a manager until Close. If several managers have the same kind of
// provider, the gauges show the values of the manager created last.
func (t *Telemetry) registerGauges(meter metric.Meter, c Config) {
	up, err := meter.Int64ObservableGauge("leasing.backend.up", metric.WithUnit("{backend}"),
		metric.WithDescription("1 while the backend answers requests, 0 since one was not answered."))
	oldest, upErr := meter.Float64ObservableGauge("leasing.waiters.oldest", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest acquire that waits, or 0."))
	if err = errors.Join(err, upErr); err == nil {
		options := metric.WithAttributes(t.provider)
		t.gauges, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			o.ObserveFloat64(oldest, c.OldestWaiter().Seconds(), options)
			o.ObserveInt64(up, c.BackendUp(), options)
			return nil
		}, up, oldest)
	}
	if err != nil {
		otel.Handle(err)
	}
}

// Close unregisters the observable gauges.
func (t *Telemetry) Close() {
	if t.gauges == nil {
		return
	}
	if err := t.gauges.Unregister(); err != nil {
		otel.Handle(err)
	}
}

// moduleVersion returns the version of this module in the running program, or "" if it is unknown.
var moduleVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == instrumentationScope {
			return module.Version
		}
	}
	return ""
})

// orNoop returns an instrument, or a stand-in that does nothing: telemetry that
// can't be set up is reported to OpenTelemetry's error handler and does not affect leases.
func orNoop[T any](instrument T, err error, standIn T) T {
	if err != nil {
		otel.Handle(err)
		return standIn
	}
	return instrument
}

func histogram(m metric.Meter, name, description string, bounds metric.HistogramOption) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), bounds)
	return orNoop[metric.Float64Histogram](h, err, noop.Float64Histogram{})
}

func counter(m metric.Meter, name, unit, description string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return orNoop[metric.Int64Counter](c, err, noop.Int64Counter{})
}

func upDown(m metric.Meter, name, unit, description string) metric.Int64UpDownCounter {
	c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	return orNoop[metric.Int64UpDownCounter](c, err, noop.Int64UpDownCounter{})
}

// Scope has the attributes of one scope of names, alone and with each value of another attribute.
type Scope struct {
	base attrs
	set  []attribute.KeyValue
	with sync.Map // from attribute.KeyValue to *attrs
}

// attrs is one attribute set in the two forms that instruments take.
type attrs struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttrs(set ...attribute.KeyValue) attrs {
	option := metric.WithAttributeSet(attribute.NewSet(set...))
	return attrs{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
}

// Scope returns the attributes of the scope of a lease's name.
func (t *Telemetry) Scope(name string) *Scope {
	key := t.scopeOf(name)
	t.mu.RLock()
	s := t.scopes[key]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	s, made := t.makeScope(key)
	if made { // a counter that appears only with its first event would not show that event as an increase
		for _, reason := range []abstractions.LostReason{
			abstractions.LostExpired, abstractions.LostTaken, abstractions.LostBroken, abstractions.LostGone, abstractions.LostRenewalLimit, abstractions.LostClosed,
		} {
			add(t.lostCount, 0, s.withAttr(reasonKey, string(reason)))
		}
		add(t.renewalFailure, 0, s.errorAttrs(abstractions.ErrUnavailable))
	}
	return s
}

// makeScope returns the scope with a key. made reports whether the scope is new. Locks mu.
func (t *Telemetry) makeScope(key string) (s *Scope, made bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scopes[key] == nil && len(t.scopes) >= MaxScopes {
		key = otherScope
	}
	if s := t.scopes[key]; s != nil {
		return s, false
	}
	key = strings.Clone(key) // so that a short key does not keep a long name alive
	set := []attribute.KeyValue{t.provider, attribute.String("leasing.scope", key)}
	s = &Scope{base: newAttrs(set...), set: set}
	t.scopes[key] = s
	return s, true
}

// FirstPart returns the scope of a name. It is the default of Options.Scope.
func FirstPart(name string) string {
	if part, _, more := strings.Cut(name, "/"); more {
		return part
	}
	return noScope
}

// withAttr returns the scope's attributes and one more, whose values must be few.
func (s *Scope) withAttr(key attribute.Key, value string) *attrs {
	kv := key.String(value)
	if a, ok := s.with.Load(kv); ok {
		return a.(*attrs)
	}
	created := newAttrs(append(slices.Clip(s.set), kv)...)
	a, _ := s.with.LoadOrStore(kv, &created)
	return a.(*attrs)
}

// outcomeAttrs returns the scope's attributes, with the kind of err unless err is nil.
func (s *Scope) outcomeAttrs(err error) *attrs {
	if err == nil {
		return &s.base
	}
	return s.errorAttrs(err)
}

func (s *Scope) errorAttrs(err error) *attrs { return s.withAttr(errorKey, errorType(err)) }

const (
	errorKey  = attribute.Key("error.type")
	reasonKey = attribute.Key("leasing.lost.reason")
)

var background = context.Background()

// adder is a counter that goes up, or up and down.
type adder interface {
	Enabled(ctx context.Context) bool
	Add(ctx context.Context, n int64, options ...metric.AddOption)
}

func add(c adder, n int64, a *attrs) {
	if c.Enabled(background) {
		c.Add(background, n, a.add...)
	}
}

func record(h metric.Float64Histogram, d time.Duration, a *attrs) {
	if h.Enabled(background) {
		h.Record(background, d.Seconds(), a.record...)
	}
}

// Acquired counts an acquire that has ended.
func (t *Telemetry) Acquired(s *Scope, took time.Duration, err error) {
	record(t.acquireDuration, took, s.outcomeAttrs(err))
	if err == nil {
		add(t.acquireSuccess, 1, &s.base)
	} else {
		add(t.acquireFailure, 1, s.errorAttrs(err))
	}
}

// AttemptFailed counts a request of a waiting acquire that the backend did not answer.
func (t *Telemetry) AttemptFailed(s *Scope, err error) { add(t.attemptFailure, 1, s.errorAttrs(err)) }

// Waiting adds n to the number of acquires that wait.
func (t *Telemetry) Waiting(s *Scope, n int64) { add(t.waiterCount, n, &s.base) }

// Active adds n to the number of leases held.
func (t *Telemetry) Active(s *Scope, n int64) { add(t.activeCount, n, &s.base) }

// Held counts the end of a lease, and records how long it was held.
func (t *Telemetry) Held(s *Scope, held time.Duration) {
	t.Active(s, -1)
	record(t.heldDuration, held, &s.base)
}

// CleanUps adds n to the number of claims without a holder that are not yet released.
func (t *Telemetry) CleanUps(n int64) { add(t.cleanupCount, n, &t.base) }

// ObserverPanicked counts a panic in an observer.
func (t *Telemetry) ObserverPanicked() { add(t.observerPanics, 1, &t.base) }

// Renewed sums up the renewals of one request.
type Renewed struct {
	Count  int64
	Margin time.Duration // the smallest margin: the trust that was left when a renewal succeeded
}

// Add adds the renewals of another lease.
func (r Renewed) Add(more Renewed) Renewed {
	if r.Count > 0 {
		more.Margin = min(more.Margin, r.Margin)
	}
	more.Count += r.Count
	return more
}

// Renewals counts the renewals of one request.
func (t *Telemetry) Renewals(s *Scope, took time.Duration, r Renewed) {
	record(t.renewalDuration, took, &s.base)
	if r.Margin != trust.Forever {
		record(t.renewalMargin, r.Margin, &s.base)
	}
	add(t.renewalSuccess, r.Count, &s.base)
}

// RenewalFailed counts an attempt to renew that failed.
func (t *Telemetry) RenewalFailed(s *Scope, took time.Duration, err error) {
	record(t.renewalDuration, took, s.errorAttrs(err))
	add(t.renewalFailure, 1, s.errorAttrs(err))
}

// Lost counts a loss.
func (t *Telemetry) Lost(s *Scope, reason abstractions.LostReason) {
	add(t.lostCount, 1, s.withAttr(reasonKey, string(reason)))
}

// Released measures a release that has ended.
func (t *Telemetry) Released(s *Scope, took time.Duration, err error) {
	record(t.releaseDuration, took, s.outcomeAttrs(err))
}

// Broken describes and counts a break. Actor and reason are for people: they are in the span, not
// in the metric, where each value would make a time series.
func (t *Telemetry) Broken(span trace.Span, req abstractions.BreakRequest, wasHeld bool) {
	if wasHeld {
		add(t.brokenCount, 1, &t.Scope(req.Name).base)
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("leasing.break.actor", req.Actor), attribute.String("leasing.break.reason", req.Reason),
			attribute.Bool("leasing.break.immediate", req.Immediate))
	}
}

// errorTypes names errors for metrics. The first match counts.
var errorTypes = []struct {
	is   error
	name string
}{
	{abstractions.ErrLost, "lost"},
	{abstractions.ErrReleased, "released"},
	{abstractions.ErrHandedOver, "handed_over"},
	{abstractions.ErrClosed, "closed"},
	{abstractions.ErrInvalid, "invalid"},
	{abstractions.ErrDenied, "denied"},
	{abstractions.ErrNotSetUp, "setup"},
	{abstractions.ErrThrottled, "throttled"},
	{abstractions.ErrHeld, "held"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
	{abstractions.ErrUnavailable, "unavailable"},
	{abstractions.ErrStale, "stale"},
	{abstractions.ErrUnsupported, "unsupported"},
}

func errorType(err error) string {
	for _, t := range errorTypes {
		if errors.Is(err, t.is) {
			return t.name
		}
	}
	return "other"
}
