package engine

import (
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config is the configuration of a manager. No field has a default. The options of package leasing document the fields.
type Config struct {
	Owner          string
	TTL            time.Duration
	BreakGrace     time.Duration // the default of BreakOptions.Grace, which the backend's MaxTTL bounds
	RefusalTimeout time.Duration

	RequestTimeout   time.Duration
	HealthTimeout    time.Duration
	ObserverTimeout  time.Duration
	RenewConcurrency int
	RenewBatch       int
	MinPoll, MaxPoll time.Duration
	DriftFactor      float64
	DriftFloor       time.Duration
	Random           func() float64

	Logger         *slog.Logger
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Scope          func(name string) string

	// Settings resolves the options of an acquire or, with an empty name, of an adoption. of is the name of the options type in
	// errors.
	Settings func(of string, options abstractions.AcquireOptions, name string) (*Settings, error)
	// ChangeTTL returns the settings with another TTL. It is called under a lease's lock, and calls no code of the
	// application.
	ChangeTTL func(settings *Settings, ttl time.Duration) (*Settings, error)
}

// Settings are the options of one lease, from its manager and its acquire, adjusted to the backend.
// They never change.
type Settings struct {
	lifecycle.Settings
	WaitLimit time.Duration // 0: no limit
	Metadata  map[string]string
	Observer  abstractions.Observer
}
