package leasing

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a Manager. The zero value is good.
type Options struct {
	// Owner is who holds this manager's leases, for people to read; it
	// decides nothing. Default: host name, process ID and a random part.
	Owner string

	// TTL is how long a lease lasts without renewal. Default 30 s.
	TTL time.Duration
	// RenewFraction is the part of the TTL after which a lease is renewed,
	// counted from when its last renewal was sent; up to a tenth of that is
	// taken off at random. Default 0.6, which leaves time for several retries.
	RenewFraction float64
	// RenewCadence fixes that time instead. It must be shorter than the time
	// for which a lease is trusted (TTL less the margin). For an infinite
	// lease it is how often the lease is verified, with the same bound.
	RenewCadence time.Duration
	// NoAutoRenew leaves renewal to Lease.Renew.
	NoAutoRenew bool
	// RaiseToMinTTL raises a TTL below the provider's minimum to it, so that one
	// configuration runs on every backend; without it that is an error. A TTL
	// above the maximum is always granted at the maximum and renewed more
	// often, except that with NoAutoRenew it is an error.
	RaiseToMinTTL bool

	// DriftFactor and DriftFloor make the margin by which trust in a lease
	// ends before its TTL does: factor x TTL + floor. Defaults 0.01 and 2 ms,
	// those of the Redlock paper at redis.io/docs/latest/develop/clients/patterns/distributed-locks.
	DriftFactor float64
	DriftFloor  time.Duration

	// RequestTimeout bounds a request whose context and lease don't bound it
	// sooner. Default 10 s.
	RequestTimeout time.Duration
	// HealthTimeout bounds the ping of Manager.Health. Default 1 s, which is what a
	// kubelet waits for an answer.
	HealthTimeout time.Duration
	// RenewConcurrency is how many renewal requests run at a time, and as many
	// again for leases whose last renewal failed. One that would otherwise come too
	// late is sent beyond it, up to 16 times as many, or 256. Default 16.
	RenewConcurrency int
	// RenewBatch is the most claims in one request to a BatchRenewer. Default 256.
	RenewBatch int

	// MinPoll and MaxPoll bound the jittered, doubling pause between requests
	// of a waiter that nothing wakes sooner. Defaults 25 ms and 1 s; with a
	// provider that pushes wake-ups the pause may grow to ten times MaxPoll. They
	// also bound the moments for which a manager that takes one name again and
	// again leaves it to others: see the package documentation.
	MinPoll, MaxPoll time.Duration

	// Random returns a number of at least 0 and under 1: all jitter comes from it. It
	// is called from several goroutines, under no lock. Set it to repeat a run in
	// virtual time. Default: math/rand/v2.
	Random func() float64

	// ObserverTimeout is how long Close waits for observers to be told all.
	// Default 5 s.
	ObserverTimeout time.Duration

	// Logger gets what an operator should know (a lost lease, a failed
	// renewal or release, a panicking observer). Default: silent.
	Logger *slog.Logger
	// MeterProvider and TracerProvider default to OpenTelemetry's global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}
