package chaos

import (
	"context"
	"log/slog"
	"time"

	"cmp"
	"errors"
	"math"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// Injection is one fault that happened.
type Injection struct {
	Rule string    `json:"rule"`
	Kind FaultKind `json:"kind"`
	Op   Op        `json:"op"`
	Name string    `json:"name,omitempty"` // "" for OpList, OpPing and OpRenewBatch
	// Fingerprint identifies the claim of the operation.
	Fingerprint abstractions.Fingerprint `json:"fingerprint,omitzero"`
	Owner       string                   `json:"owner,omitempty"` // "" if not known
	// Nth is the number, from 1, of the operation among those of the same kind,
	// name and owner.
	Nth int `json:"nth"`
	// Attempt is the number, from 1, of the attempt: see Match.MinAttempt.
	Attempt int `json:"attempt"`
	// At is the time of the fault, and Since is the time from Wrap or Reset to the fault.
	At    time.Time     `json:"at"`
	Since time.Duration `json:"since"` // in nanoseconds
	// Delay is the duration of the fault, including its random part. 0 means no delay, or a delay
	// until the caller's context ends.
	Delay time.Duration `json:"delay,omitzero"` // in nanoseconds
	// After says that the operation took effect before the fault.
	After bool `json:"after,omitempty"`
}

// Decision is the result of one rule for one operation.
type Decision struct {
	Rule        string
	Kind        FaultKind
	Op          Op
	Name        string                   // "" for OpList, OpPing and OpRenewBatch
	Fingerprint abstractions.Fingerprint // identifies the claim of the operation
	Owner       string                   // "" if not known
	Nth         int                      // as in Injection
	Attempt     int                      // as in Injection
	Since       time.Duration            // since Wrap or Reset
	// Position is the number, from 1, of the operation among those that the rule's
	// Policy counts. It is 0 for an operation that is not counted.
	Position int
	// Happens says that the fault happens to the operation. Otherwise Reason says
	// why it does not.
	Happens bool
	Reason  Reason
}

// Reason says why a rule's fault does not happen to an operation.
type Reason string

// The reasons, in the order of the checks.
const (
	ReasonDisabled    Reason = "disabled"    // the rule is disabled
	ReasonMatch       Reason = "match"       // Ops, Names or Owners of Match, or the fault can't happen to the operation
	ReasonAttempt     Reason = "attempt"     // MinAttempt, MaxAttempt or OnlyOnRetry of Match
	ReasonWindow      Reason = "window"      // From, To and Repeat of Policy
	ReasonCount       Reason = "count"       // Skip, First, Every or Sequence of Policy
	ReasonProbability Reason = "probability" // Policy.Probability
	ReasonPolicy      Reason = "policy"      // Policy.Custom has not chosen it, or panicked
	ReasonOther       Reason = "other"       // the fault of another rule happens
	ReasonNoAnswer    Reason = "no_answer"   // a FaultStaleRead has no earlier answer
	ReasonPending     Reason = "pending"     // 4,096 operations are yet to be delivered late
	ReasonBudget      Reason = "budget"      // Budget of the plan or the rule
	ReasonRate        Reason = "rate"        // Rate of the plan or the rule
)

// note records and reports a fault that happens now.
func (p *Provider) note(ctx context.Context, o operation, f *occurrence) {
	i := Injection{
		Rule: f.rule.Name, Kind: f.kind(), Op: o.op, Name: o.name, Fingerprint: abstractions.FingerprintOf(o.id), Owner: o.owner, Nth: o.nth,
		Attempt: o.attempt, At: time.Now(), Delay: f.delay, After: f.appliesFirst(),
	}
	p.mu.Lock()
	i.Since = i.At.Sub(p.start)
	p.report.add(i)
	p.mu.Unlock()
	p.protect(func() {
		p.injected.Add(ctx, 1, metric.WithAttributes(attribute.String("leasing.chaos.rule", i.Rule), attribute.String("leasing.chaos.op", string(i.Op))))
		i.describe(ctx, p.options.Logger)
	})
	if p.options.Observer != nil {
		p.protect(func() { p.options.Observer(i) })
	}
}

// describe adds the fault to the caller's span and to the log.
func (i Injection) describe(ctx context.Context, logger *slog.Logger) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("chaos.injected", trace.WithAttributes(
			attribute.String("chaos.rule", i.Rule), attribute.String("chaos.kind", string(i.Kind)),
			attribute.String("chaos.op", string(i.Op)), attribute.String("leasing.name", i.Name),
			attribute.Float64("chaos.delay", i.Delay.Seconds()), attribute.Bool("chaos.after", i.After),
		))
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "fault injected",
		slog.String("rule", i.Rule), slog.String("kind", string(i.Kind)), slog.String("op", string(i.Op)),
		slog.String("name", i.Name), slog.String("fingerprint", i.Fingerprint.String()), slog.String("owner", i.Owner),
		slog.Int("nth", i.Nth), slog.Int("attempt", i.Attempt), slog.Duration("delay", i.Delay), slog.Bool("after", i.After))
}

// instrumentationScope is the module's path, as OpenTelemetry advises.
const instrumentationScope = "github.com/distributedleasing/leasing/chaos"

func newCounter(provider metric.MeterProvider) metric.Int64Counter {
	counter, err := provider.Meter(instrumentationScope).Int64Counter("leasing.chaos.injected", metric.WithDescription("Faults that chaos has injected."))
	if err != nil {
		otel.Handle(err)
		return noop.Int64Counter{}
	}
	return counter
}

// includesAttempt reports whether an attempt is within the bounds.
func (m Match) includesAttempt(attempt int) bool {
	least, most := m.attempts()
	return attempt >= least && attempt <= most
}

// attempts returns the bounds of the attempt number.
func (m Match) attempts() (least, most int) {
	least = max(m.MinAttempt, 1)
	if m.OnlyOnRetry {
		least = max(least, 2)
	}
	return least, cmp.Or(m.MaxAttempt, math.MaxInt)
}

// request identifies the request of which an operation is an attempt. Without an ID the owner takes
// its place.
func (o operation) request() identity { return identity{o.op, o.name, cmp.Or(o.id, o.owner)} }

// recordOutcome counts a failed attempt, and clears the failures of a request that has been answered.
func (p *Provider) recordOutcome(o operation, err error) {
	if o.attempt == 1 && err == nil || o.attempt == 0 { // no failures to clear, or decide was not called
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countOutcome(o, err)
}

// countOutcome does the work of recordOutcome. Caller holds mu.
func (p *Provider) countOutcome(o operation, err error) {
	switch request := o.request(); {
	case !isAnswer(err):
		p.failures.add(request)
	case p.failures.of(request) > 0:
		p.failures.put(request, 0)
	}
}

// isAnswer reports whether an error, or nil, is an answer to a request, after which
// the request is not repeated.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	for _, answer := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrUnsupported, abstractions.ErrClosed,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// recordItemOutcomes counts the attempts of a batch. An item without an answer has the error of
// the batch.
func (p *Provider) recordItemOutcomes(reqs []abstractions.RenewRequest, results []abstractions.RenewResult, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, req := range reqs {
		result := abstractions.RenewResult{Err: err}
		if n < len(results) && (results[n].Err != nil || results[n].Grant.ID != "") {
			result = results[n]
		}
		p.countOutcome(renewal(req), result.Err)
	}
}
