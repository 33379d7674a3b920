package leasing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// instrumentationScope is the module's path, as OpenTelemetry advises.
const instrumentationScope = "github.com/distributedleasing/leasing"

// Bucket bounds in seconds: of requests, and of how long leases are held.
var (
	requestBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	heldBounds    = []float64{.01, .1, 1, 10, 60, 300, 1800, 3600, 21600, 86400}
)

// maxScopes bounds the values of the leasing.scope attribute; names whose
// scopes come after are counted under otherScope. A user who puts a message ID
// in second place would otherwise make a time series for each message.
const (
	maxScopes  = 256
	otherScope = "_other"
)

// resultOK is the value of leasing.result beside those of errorTypes.
const resultOK = "ok"

// telemetry is OpenTelemetry for one manager. Instruments of a meter that is
// off cost a check; attribute sets are made once for each scope.
type telemetry struct {
	tracer   trace.Tracer
	provider string

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
	heldDuration    metric.Float64Histogram
	observerPanics  metric.Int64Counter

	mu     sync.RWMutex
	scopes map[string]*scope
}

func newTelemetry(o Options, provider string) *telemetry {
	meter := o.MeterProvider.Meter(instrumentationScope)
	requests, heldFor := metric.WithExplicitBucketBoundaries(requestBounds...), metric.WithExplicitBucketBoundaries(heldBounds...)
	return &telemetry{
		tracer:   o.TracerProvider.Tracer(instrumentationScope),
		provider: provider,
		scopes:   map[string]*scope{},

		acquireDuration: histogram(meter, "leasing.acquire.duration", "Time from asking for a lease to having it or giving up, waiting included.", requests),
		acquireSuccess:  counter(meter, "leasing.acquire.success", "Leases acquired."),
		acquireFailure:  counter(meter, "leasing.acquire.failure", "Acquires that ended without a lease."),
		attemptFailure:  counter(meter, "leasing.acquire.attempt.failure", "Requests of waiting acquires that the backend did not answer."),
		renewalDuration: histogram(meter, "leasing.renewal.duration", "Time of one attempt to renew a lease.", requests),
		renewalSuccess:  counter(meter, "leasing.renewal.success", "Renewals."),
		renewalFailure:  counter(meter, "leasing.renewal.failure", "Attempts to renew that failed."),
		renewalMargin:   histogram(meter, "leasing.renewal.margin", "Trust that was left in a lease when a renewal came back; the least of those that shared a request.", requests),
		lostCount:       counter(meter, "leasing.lost", "Leases that ended without a release."),
		brokenCount:     counter(meter, "leasing.broken", "Leases of anybody that this manager broke."),
		releaseDuration: histogram(meter, "leasing.release.duration", "Time from beginning a release to its end at the backend.", requests),
		activeCount:     upDown(meter, "leasing.active.count", "Leases held."),
		waiterCount:     upDown(meter, "leasing.waiters", "Acquires that wait."),
		heldDuration:    histogram(meter, "leasing.held.duration", "Time for which a lease was held.", heldFor),
		observerPanics:  counter(meter, "leasing.observer.panics", "Panics of observers."),
	}
}

// made returns an instrument, or a stand-in that does nothing: telemetry that
// can't be set up is reported to OpenTelemetry's error handler and harms no lease.
func made[T any](instrument T, err error, standIn T) T {
	if err != nil {
		otel.Handle(err)
		return standIn
	}
	return instrument
}

func histogram(m metric.Meter, name, about string, bounds metric.HistogramOption) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), bounds)
	return made[metric.Float64Histogram](h, err, noop.Float64Histogram{})
}

func counter(m metric.Meter, name, about string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithDescription(about))
	return made[metric.Int64Counter](c, err, noop.Int64Counter{})
}

func upDown(m metric.Meter, name, about string) metric.Int64UpDownCounter {
	c, err := m.Int64UpDownCounter(name, metric.WithDescription(about))
	return made[metric.Int64UpDownCounter](c, err, noop.Int64UpDownCounter{})
}

// scope is the attributes of one component/purpose, alone, with the result "ok", and
// with each value of a second attribute.
type scope struct {
	base attrs
	ok   attrs
	set  []attribute.KeyValue
	with sync.Map // from attribute.KeyValue to *attrs
}

// attrs is one attribute set in the two forms in which instruments take it.
type attrs struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttrs(set ...attribute.KeyValue) attrs {
	option := metric.WithAttributeSet(attribute.NewSet(set...))
	return attrs{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
}

// scope returns the attributes of the lease called name.
func (t *telemetry) scope(name string) *scope {
	key := scopeOf(name)
	t.mu.RLock()
	s := t.scopes[key]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.scopes[key]; s != nil {
		return s
	}
	if len(t.scopes) >= maxScopes {
		key = otherScope
		if s := t.scopes[key]; s != nil {
			return s
		}
	}
	key = strings.Clone(key) // don't keep a long name alive for its beginning
	set := []attribute.KeyValue{attribute.String("leasing.provider", t.provider), attribute.String("leasing.scope", key)}
	s = &scope{base: newAttrs(set...), ok: newAttrs(append(set, resultKey.String(resultOK))...), set: set}
	t.scopes[key] = s
	return s
}

// scopeOf returns component/purpose of component/purpose/key.
func scopeOf(name string) string {
	component, rest, _ := strings.Cut(name, "/")
	purpose, _, _ := strings.Cut(rest, "/")
	return name[:min(len(name), len(component)+1+len(purpose))]
}

// and returns the scope's attributes with one more, of few possible values.
func (s *scope) and(key attribute.Key, value string) *attrs {
	kv := key.String(value)
	if a, ok := s.with.Load(kv); ok {
		return a.(*attrs)
	}
	made := newAttrs(append(slices.Clip(s.set), kv)...)
	a, _ := s.with.LoadOrStore(kv, &made)
	return a.(*attrs)
}

const (
	resultKey = attribute.Key("leasing.result")
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

func (t *telemetry) acquired(s *scope, took time.Duration, err error) {
	if err == nil {
		add(t.acquireSuccess, 1, &s.base)
		record(t.acquireDuration, took, &s.ok)
		return
	}
	add(t.acquireFailure, 1, s.and(errorKey, errorType(err)))
	record(t.acquireDuration, took, s.and(resultKey, errorType(err)))
}

// renewed are renewals that took one request.
type renewed struct {
	count  int64
	margin time.Duration // the least
}

func (r renewed) and(more renewed) renewed {
	if r.count > 0 {
		more.margin = min(more.margin, r.margin)
	}
	more.count += r.count
	return more
}

func (t *telemetry) renewals(s *scope, took time.Duration, r renewed) {
	record(t.renewalDuration, took, &s.ok)
	if r.margin != forever {
		record(t.renewalMargin, r.margin, &s.base)
	}
	add(t.renewalSuccess, r.count, &s.base)
}

func (t *telemetry) renewalFailed(s *scope, took time.Duration, err error) {
	record(t.renewalDuration, took, s.and(resultKey, errorType(err)))
	add(t.renewalFailure, 1, s.and(errorKey, errorType(err)))
}

// broke describes a break and counts it. Who and why are for people: in the span, not
// in the metric, where each would make a time series.
func (t *telemetry) broke(span trace.Span, req abstractions.BreakRequest, wasHeld bool) {
	if wasHeld {
		add(t.brokenCount, 1, &t.scope(req.Name).base)
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("lease.break.actor", req.Actor), attribute.String("lease.break.reason", req.Reason),
			attribute.Bool("lease.break.immediate", req.Immediate))
	}
}

func (t *telemetry) released(s *scope, took time.Duration, err error) {
	result := &s.ok
	if err != nil {
		result = s.and(resultKey, errorType(err))
	}
	record(t.releaseDuration, took, result)
}

// errorTypes names errors for metrics. The first match counts.
var errorTypes = []struct {
	is   error
	name string
}{
	{ErrLost, "lost"},
	{ErrReleased, "released"},
	{ErrClosed, "closed"},
	{ErrInvalid, "invalid"},
	{ErrDenied, "denied"},
	{ErrNotSetUp, "setup"},
	{ErrThrottled, "throttled"},
	{ErrHeld, "held"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
	{ErrUnavailable, "unavailable"},
	{ErrStale, "stale"},
	{ErrUnsupported, "unsupported"},
}

func errorType(err error) string {
	if err == nil {
		return resultOK
	}
	for _, t := range errorTypes {
		if errors.Is(err, t.is) {
			return t.name
		}
	}
	return "other"
}

// startLinked begins a span that is linked to the one which acquired the lease.
func (t *telemetry) startLinked(ctx context.Context, name string, l *lease) (context.Context, trace.Span) {
	if l.caller == nil {
		return t.tracer.Start(ctx, name)
	}
	return t.tracer.Start(ctx, name, trace.WithLinks(trace.Link{SpanContext: *l.caller}))
}

// maxLinks is how many links a span of a batch has: OpenTelemetry's default limit.
const maxLinks = 128

// startBatch begins the span of a renewal of several leases.
func (t *telemetry) startBatch(ctx context.Context, leases []*lease) (context.Context, trace.Span) {
	var links []trace.Link
	for _, l := range leases {
		if l.caller != nil && len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: *l.caller})
		}
	}
	ctx, span := t.tracer.Start(ctx, "lease.renew", trace.WithLinks(links...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("leasing.provider", t.provider), attribute.Int("lease.count", len(leases)))
	}
	return ctx, span
}

// describe sets a span's attributes and status, if anybody will see them.
func (t *telemetry) describe(span trace.Span, name, id string, token int64, ttl time.Duration, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("leasing.provider", t.provider), attribute.String("lease.name", name),
		attribute.String("leasing.result", errorType(err)))
	if id != "" {
		span.SetAttributes(attribute.String("lease.id", id))
	}
	if token != 0 {
		span.SetAttributes(attribute.Int64("lease.token", token))
	}
	if ttl != 0 && ttl != Infinite {
		span.SetAttributes(attribute.Float64("lease.duration", ttl.Seconds()))
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, errorType(err))
	}
}
