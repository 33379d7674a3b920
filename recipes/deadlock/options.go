package deadlock

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Policy defines how a cycle is resolved. All actors that share names should have the same policy.
type Policy string

// The policies.
const (
	// Refuse ends the newest wait with an *Error. The actor keeps its leases: its caller must
	// release them, so that the others continue.
	Refuse Policy = "refuse"
	// Report calls Options.Observer, and does not resolve the cycle.
	Report Policy = "report"
	// Break makes the actor that has waited the longest break the lease of the actor
	// that has waited the least, with Manager.Break and without BreakOptions.Immediate. That lease
	// can no longer be renewed, and its holder loses it when it has run out. Use it for holders
	// that ignore errors.
	Break Policy = "break"
)

// Options configure an actor. The zero value is ready to use.
type Options struct {
	// After is the length of a wait after which the actor publishes the wait and looks for cycles.
	// Default 1 s.
	After time.Duration `option:"default=1s,min=1ms"`
	// Every is the time between later checks. Default 2 s.
	Every time.Duration `option:"default=2s,min=1ms"`
	// Policy is Refuse (the default), Report or Break.
	Policy Policy
	// Observer, unless nil, is called once for each cycle that the actor is in,
	// before the policy acts. It delays the actor's Acquire, so it should return soon.
	Observer func(*Error)
	// Logger gets a warning for each cycle. Default: silent.
	Logger *slog.Logger
	// MeterProvider gets the counter leasing.deadlock.count. Default: OpenTelemetry's
	// global provider.
	MeterProvider metric.MeterProvider
}

func (o Options) complete() (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	switch o.Policy {
	case "":
		o.Policy = Refuse
	case Refuse, Report, Break:
	default:
		return o, &leasing.InvalidError{Field: "Options.Policy", Value: string(o.Policy), Want: "refuse, report or break"}
	}
	if o.Observer == nil {
		o.Observer = func(*Error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	return o, nil
}
