package instrument

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceKey is the key under which a lease's metadata has the trace context of its acquire, in the form of the header of the same
// name: https://www.w3.org/TR/trace-context/#traceparent-header.
const traceKey = "traceparent"

// Trace has the tracing data of a lease. A lease that is not traced has a nil Trace, which all methods accept.
type Trace struct {
	caller   trace.SpanContext // the span in the context of the acquire; may be invalid
	header   string            // the value of traceKey; "" if the acquire is not sampled
	linked   trace.SpanContext // the latest holder to which the acquire's span has a link
	requests int               // requests of the acquire
}

// CountRequest counts a request of the acquire. Only one goroutine has the claim at this point.
func (t *Trace) CountRequest() {
	if t != nil {
		t.requests++
	}
}

// Requests returns the number of requests of the acquire.
func (t *Trace) Requests() int {
	if t == nil {
		return 0
	}
	return t.requests
}

// NewTrace returns the Trace of a lease that is acquired with the context ctx, in the span of spanCtx. It returns nil if neither
// context has a span.
func NewTrace(ctx, spanCtx context.Context, adopted bool) *Trace {
	caller, own := trace.SpanContextFromContext(ctx), trace.SpanContextFromContext(spanCtx)
	if !caller.IsValid() && !own.IsValid() {
		return nil
	}
	t := &Trace{caller: caller}
	if own.IsSampled() && !adopted {
		header := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(spanCtx, header)
		t.header = header[traceKey]
	}
	return t
}

// With returns metadata with the trace context added, if there is enough room.
func (t *Trace) With(metadata map[string]string) map[string]string {
	if t == nil || t.header == "" {
		return metadata
	}
	if _, own := metadata[traceKey]; own {
		return metadata
	}
	all := map[string]string{traceKey: t.header}
	maps.Copy(all, metadata)
	if abstractions.ValidateMetadata(all) != nil {
		return metadata
	}
	return all
}

// LinkHolder links the span of a wait, which is in ctx, to the acquire of the lease that it waits for, once for each holder. Only
// one goroutine has the claim at this point.
func (t *Trace) LinkHolder(ctx context.Context, holder *abstractions.Record) {
	header := holder.Metadata[traceKey]
	if t == nil || header == "" || holder.Unconfirmed {
		return
	}
	from := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceKey: header}))
	if !from.IsValid() || from.Equal(t.linked) {
		return
	}
	t.linked = from
	trace.SpanFromContext(ctx).AddLink(trace.Link{
		SpanContext: from,
		Attributes:  []attribute.KeyValue{attribute.String("leasing.owner", holder.Owner), attribute.Int64("leasing.token", holder.Token)},
	})
}

// Start begins a span.
func (t *Telemetry) Start(ctx context.Context, name string) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name)
}

// StartLinked begins a span with a link to the span that acquired the lease.
func (t *Telemetry) StartLinked(ctx context.Context, name string, lease *Trace) (context.Context, trace.Span) {
	if lease == nil || !lease.caller.IsValid() {
		return t.tracer.Start(ctx, name)
	}
	return t.tracer.Start(ctx, name, trace.WithLinks(trace.Link{SpanContext: lease.caller}))
}

// maxLinks limits the number of links of a batch's span. It is OpenTelemetry's default limit.
const maxLinks = 128

// StartBatch begins the span of a renewal of several leases.
func (t *Telemetry) StartBatch(ctx context.Context, leases []*Trace) (context.Context, trace.Span) {
	var links []trace.Link
	for _, l := range leases {
		if l != nil && l.caller.IsValid() && len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: l.caller})
		}
	}
	ctx, span := t.tracer.Start(ctx, "leasing.renew", trace.WithLinks(links...))
	if span.IsRecording() {
		span.SetAttributes(t.provider, attribute.Int("leasing.count", len(leases)))
	}
	return ctx, span
}

// SpanOfLoss makes the span of a loss. Most losses have no request of their own: trust runs out, or a batch reports the loss.
// Ending a span may export it, so the call may take long.
func (t *Telemetry) SpanOfLoss(lease *Trace, subject Subject, err error) {
	_, span := t.StartLinked(background, "leasing.lost", lease)
	defer span.End()
	t.Describe(span, subject, err)
}

// Subject has the attributes of the lease or claim that a span is about. Zero fields are left out.
type Subject struct {
	Name, ID string
	Token    int64
	TTL      time.Duration
	Attempts int
}

// Describe sets a span's attributes and status if the span is recorded.
func (t *Telemetry) Describe(span trace.Span, a Subject, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(t.provider, attribute.String("leasing.name", a.Name))
	if a.ID != "" {
		span.SetAttributes(attribute.String("leasing.fingerprint", abstractions.FingerprintOf(a.ID).String()))
	}
	if a.Token != 0 {
		span.SetAttributes(attribute.Int64("leasing.token", a.Token))
	}
	if a.TTL != 0 && a.TTL != abstractions.Infinite {
		span.SetAttributes(attribute.Float64("leasing.ttl", a.TTL.Seconds()))
	}
	if a.Attempts != 0 {
		span.SetAttributes(attribute.Int("leasing.attempts", a.Attempts))
	}
	if lost := (*abstractions.LostError)(nil); errors.As(err, &lost) {
		span.SetAttributes(reasonKey.String(string(lost.Reason)))
	}
	if err != nil {
		span.SetAttributes(errorKey.String(errorType(err)))
		span.RecordError(err)
		span.SetStatus(codes.Error, errorType(err))
	}
}
