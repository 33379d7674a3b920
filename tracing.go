package leasing

import (
	"context"
	"maps"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceKey is the key of a lease's metadata that has the trace context of its acquire, in the form of the header of that
// name: https://www.w3.org/TR/trace-context/#traceparent-header.
const traceKey = "traceparent"

// traced is the tracing of a lease.
type traced struct {
	caller trace.SpanContext // the span in the context of the acquire; may be invalid
	stored string            // the value of traceKey; "" if the acquire is not sampled
	linked trace.SpanContext // the latest holder to which the acquire's span has a link
	asked  int               // requests of the acquire
}

// asks counts a request of the acquire. Only one goroutine has the claim at this point.
func (t *traced) asks() {
	if t != nil {
		t.asked++
	}
}

// requests returns the number of requests of the acquire.
func (t *traced) requests() int {
	if t == nil {
		return 0
	}
	return t.asked
}

// tracedBy returns the tracing of a lease that is acquired with the context ctx, in the span of spanCtx. It is nil without a trace.
func tracedBy(ctx, spanCtx context.Context, adopted bool) *traced {
	caller, own := trace.SpanContextFromContext(ctx), trace.SpanContextFromContext(spanCtx)
	if !caller.IsValid() && !own.IsValid() {
		return nil
	}
	t := &traced{caller: caller}
	if own.IsSampled() && !adopted {
		header := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(spanCtx, header)
		t.stored = header[traceKey]
	}
	return t
}

// with returns metadata with the trace context, if there is room.
func (t *traced) with(metadata map[string]string) map[string]string {
	if t == nil || t.stored == "" {
		return metadata
	}
	if _, own := metadata[traceKey]; own {
		return metadata
	}
	all := map[string]string{traceKey: t.stored}
	maps.Copy(all, metadata)
	if abstractions.ValidateMetadata(all) != nil {
		return metadata
	}
	return all
}

// linkHolder links the span of a wait to the acquire of the lease in its way, once for each holder. Only one
// goroutine has the claim at this point.
func linkHolder(ctx context.Context, l *lease, holder *Record) {
	header := holder.Metadata[traceKey]
	if l.traced == nil || header == "" || holder.Unconfirmed {
		return
	}
	from := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceKey: header}))
	if !from.IsValid() || from.Equal(l.traced.linked) {
		return
	}
	l.traced.linked = from
	trace.SpanFromContext(ctx).AddLink(trace.Link{
		SpanContext: from,
		Attributes:  []attribute.KeyValue{attribute.String("leasing.owner", holder.Owner), attribute.Int64("leasing.token", holder.Token)},
	})
}
