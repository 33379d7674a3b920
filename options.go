package leasing

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/engine"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a Manager. The zero value is ready to use.
type Options struct {
	// Owner is a label for the holder of this manager's leases, for operators and their tools. No
	// grant depends on the label. At most MaxOwnerBytes. Default: host name, process ID and a
	// random part.
	Owner string

	// TTL is the duration of a lease without renewal. Default 30 s, or the nearest TTL that
	// the backend grants.
	TTL time.Duration
	// TTLPolicy, unless nil, chooses the TTL of each lease: see TTLRequest. It is called once for each acquire, even if the acquire
	// waits, but not for infinite leases or by Adopt. It overrides Options.TTL and AcquireOptions.TTL. Its result is raised or cut
	// to fit the backend and the renewals; 0 or less leaves the TTL unchanged. A lease keeps this TTL until a call of Lease.SetTTL.
	// TTLPolicy is called on the caller's goroutine, without locks, from several goroutines at a time. Package recipes/ttlpolicy has
	// two policies.
	TTLPolicy func(TTLRequest) time.Duration
	// RenewFraction is the fraction of the TTL after which a lease is renewed,
	// counted from when the last successful renewal was sent. Up to a tenth of
	// that time is taken off at random. Default 0.6, which leaves time for
	// several retries.
	RenewFraction float64
	// RenewCadence is the time from one renewal to the next; set either RenewCadence or
	// RenewFraction, not both. It must be shorter than the time for which a lease is trusted (TTL
	// less the margin). An infinite lease is verified at this cadence, with the same bound.
	RenewCadence time.Duration
	// NoAutoRenew leaves renewal to Lease.Renew.
	NoAutoRenew bool
	// RaiseToMinTTL raises a TTL below the provider's minimum to that minimum,
	// so that one configuration runs on every backend. Without it such a TTL is
	// an error. A TTL above the maximum is cut to the maximum; with NoAutoRenew
	// it is an error.
	RaiseToMinTTL bool

	// RefusalTimeout is the time for which a waiting Acquire retries while the backend's only answer is ErrDenied. After that,
	// Acquire returns the error. Most refusals are temporary: a password is rotated, a role assignment has not arrived yet.
	// TryAcquire and Adopt return the first refusal. Default 1 min.
	RefusalTimeout time.Duration

	// Logger logs what an operator should know: a lost lease, a failed
	// renewal or release, a panicking observer. Default: no logging.
	Logger *slog.Logger
	// Scope maps a name to the value of the metric attribute leasing.scope. Return few different
	// values, since each makes about a hundred time series; after a manager's first 64 values all
	// others become "_other". Scope is called on the goroutine of each acquire, from several
	// goroutines at a time. Default: the part before the name's first slash, and "_none" for names
	// that have no slash.
	Scope func(name string) string
	// MeterProvider and TracerProvider default to OpenTelemetry's global providers. An acquire whose span is sampled stores
	// the span's context in the lease's metadata, under the key "traceparent" of W3C Trace Context, where there is room. The
	// span of a wait has a link to the acquire of each lease that it waited for. Lease.Metadata leaves out the key; Inspect
	// shows the key.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Tuning has the options that few programs need.
	Tuning Tuning
}

// Tuning is the part of Options that few programs set. A field that is zero has its default.
type Tuning struct {
	// DriftFactor and DriftFloor set the margin by which trust in a lease ends before its TTL:
	// factor x TTL + floor. Together with RenewFraction, DriftFactor must leave room for renewals.
	// Defaults 0.01 and 2 ms, those of the Redlock algorithm at
	// redis.io/docs/latest/develop/clients/patterns/distributed-locks.
	DriftFactor float64
	DriftFloor  time.Duration

	// RequestTimeout bounds each request, unless the request's context or lease ends it sooner. Default 10 s.
	RequestTimeout time.Duration
	// HealthTimeout bounds the ping of Manager.Health. Default 1 s, the default
	// timeout of a kubelet's probes.
	HealthTimeout time.Duration
	// RenewConcurrency limits the number of renewal requests in flight; the same number again may be in flight for leases whose
	// last renewal failed. Requests that would otherwise be late may exceed the limit, up to 16 times RenewConcurrency or 256,
	// whichever is more. Default 16.
	RenewConcurrency int
	// RenewBatch is the largest number of claims in one request to a BatchRenewer. Default 256.
	RenewBatch int

	// MinPoll and MaxPoll bound the jittered, doubling pause between the requests of a waiter that no
	// wake-up reaches. With a provider that pushes wake-ups the pause may grow to ten times MaxPoll.
	// They also bound the pauses of a manager that acquires one name again and again: see "Waiting" in
	// the package documentation. Defaults 25 ms and 1 s.
	MinPoll, MaxPoll time.Duration

	// Random is the source of all jitter. It returns a number in [0, 1), and is
	// called from several goroutines, without locks. Set it to make a run in virtual
	// time repeatable. Default: math/rand/v2.
	Random func() float64

	// ObserverTimeout bounds Close's wait for observers to receive all
	// events. Default 5 s.
	ObserverTimeout time.Duration
}

// TTLRequest is the argument of a TTLPolicy.
type TTLRequest struct {
	Name string        // of the lease
	TTL  time.Duration // the TTL without the policy: that of AcquireOptions, else of Options
}

const defaultTTL = 30 * time.Second

// withDefaults replaces zero fields with the defaults, and checks the others. It also returns the settings of
// an acquire without options.
func (o Options) withDefaults(c Capabilities) (Options, *engine.Settings, error) {
	o.Tuning.RequestTimeout = cmp.Or(o.Tuning.RequestTimeout, 10*time.Second)
	o.RefusalTimeout = cmp.Or(o.RefusalTimeout, time.Minute)
	o.Tuning.HealthTimeout = cmp.Or(o.Tuning.HealthTimeout, time.Second)
	o.Tuning.RenewConcurrency = cmp.Or(o.Tuning.RenewConcurrency, 16)
	o.Tuning.RenewBatch = cmp.Or(o.Tuning.RenewBatch, 256)
	o.Tuning.MinPoll = cmp.Or(o.Tuning.MinPoll, 25*time.Millisecond)
	o.Tuning.MaxPoll = cmp.Or(o.Tuning.MaxPoll, max(time.Second, o.Tuning.MinPoll))
	o.Tuning.ObserverTimeout = cmp.Or(o.Tuning.ObserverTimeout, 5*time.Second)
	o.Tuning.DriftFactor = cmp.Or(o.Tuning.DriftFactor, 0.01)
	o.Tuning.DriftFloor = cmp.Or(o.Tuning.DriftFloor, 2*time.Millisecond)
	o.Owner = cmp.Or(o.Owner, defaultOwner())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MeterProvider = cmp.Or(o.MeterProvider, otel.GetMeterProvider())
	o.TracerProvider = cmp.Or(o.TracerProvider, otel.GetTracerProvider())
	if o.Tuning.Random == nil {
		o.Tuning.Random = mathrand.Float64
	}
	if o.Scope == nil {
		o.Scope = instrument.FirstPart
	}
	if err := o.validate(); err != nil {
		return o, nil, err
	}
	p, err := o.settings("Options", &AcquireOptions{}, c, "")
	if err == nil && o.TTL == 0 {
		o.TTL = p.TTL
	}
	return o, p, err
}

func (o *Options) validate() error {
	if err := abstractions.ValidateText("Options.Owner", o.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	for _, bound := range []struct {
		field string
		value time.Duration
	}{
		{"Options.Tuning.RequestTimeout", o.Tuning.RequestTimeout},
		{"Options.RefusalTimeout", o.RefusalTimeout},
		{"Options.Tuning.HealthTimeout", o.Tuning.HealthTimeout},
		{"Options.Tuning.MinPoll", o.Tuning.MinPoll},
		{"Options.Tuning.ObserverTimeout", o.Tuning.ObserverTimeout},
		{"Options.Tuning.DriftFloor", o.Tuning.DriftFloor},
		{"Options.Tuning.RenewConcurrency", time.Duration(o.Tuning.RenewConcurrency)},
		{"Options.Tuning.RenewBatch", time.Duration(o.Tuning.RenewBatch)},
	} {
		if bound.value <= 0 {
			return &InvalidError{Field: bound.field, Value: int64(bound.value), Want: "more than 0; or 0 for the default"}
		}
	}
	if o.Tuning.MaxPoll < o.Tuning.MinPoll {
		return &InvalidError{Field: "Options.Tuning.MaxPoll", Value: o.Tuning.MaxPoll, Want: fmt.Sprintf("at least MinPoll, which is %v", o.Tuning.MinPoll)}
	}
	if !(o.Tuning.DriftFactor > 0 && o.Tuning.DriftFactor < 0.5) {
		return &InvalidError{Field: "Options.Tuning.DriftFactor", Value: o.Tuning.DriftFactor, Want: "more than 0 and under 0.5; or 0 for the default"}
	}
	if o.TTL == Infinite {
		return &InvalidError{Field: "Options.TTL", Value: Infinite, Want: "a finite time; set AcquireOptions.TTL for a lease without end"}
	}
	return nil
}

// defaultOwner distinguishes the processes of one machine, and the managers of one process.
func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil || abstractions.ValidateText("Owner", host, MaxOwnerBytes-32) != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
}

// config returns the configuration of the engine. o has its defaults, and settings are those of an acquire without options.
func (o *Options) config(c Capabilities, settings *engine.Settings) engine.Config {
	return engine.Config{
		Owner:          o.Owner,
		TTL:            o.TTL,
		BreakGrace:     2 * max(defaultTTL, min(o.TTL, trust.Forever/2)),
		RefusalTimeout: o.RefusalTimeout,

		RequestTimeout:   o.Tuning.RequestTimeout,
		HealthTimeout:    o.Tuning.HealthTimeout,
		ObserverTimeout:  o.Tuning.ObserverTimeout,
		RenewConcurrency: o.Tuning.RenewConcurrency,
		RenewBatch:       o.Tuning.RenewBatch,
		MinPoll:          o.Tuning.MinPoll,
		MaxPoll:          o.Tuning.MaxPoll,
		DriftFactor:      o.Tuning.DriftFactor,
		DriftFloor:       o.Tuning.DriftFloor,
		Random:           o.Tuning.Random,

		Logger:         o.Logger,
		MeterProvider:  o.MeterProvider,
		TracerProvider: o.TracerProvider,
		Scope:          o.Scope,

		Settings: func(optionsType string, a AcquireOptions, name string) (*engine.Settings, error) {
			if o.TTLPolicy == nil && isDefault(&a) {
				return settings, nil
			}
			return o.settings(optionsType, &a, c, name)
		},
		ChangeTTL: func(s *engine.Settings, ttl time.Duration) (*engine.Settings, error) { return o.withTTL(s, ttl, c) },
	}
}

// isDefault reports whether all options of an acquire are the defaults.
func isDefault(a *AcquireOptions) bool {
	return a.TTL == 0 && a.RenewFraction == 0 && a.RenewCadence == 0 && !a.NoAutoRenew && a.MaxRenewals == 0 &&
		a.WaitLimit == 0 && a.AtLeast == 0 && a.Metadata == nil && a.Observer == nil
}

// settings resolves the options of an acquire. Its errors name fields as the
// caller wrote them: optionsType names the struct, "Options" or "AcquireOptions". The
// policy chooses the TTL of the name, unless the name is "".
func (o *Options) settings(optionsType string, a *AcquireOptions, c Capabilities, name string) (*engine.Settings, error) {
	at := optionsType
	if optionsType == "Options" {
		at = "AcquireOptions"
	}
	p := &engine.Settings{
		Settings: lifecycle.Settings{MaxRenewals: a.MaxRenewals, AtLeast: a.AtLeast}, WaitLimit: a.WaitLimit, Metadata: maps.Clone(a.Metadata), Observer: a.Observer,
	}
	if a.MaxRenewals < 0 {
		return nil, &InvalidError{Field: at + ".MaxRenewals", Value: a.MaxRenewals, Want: "0 for no limit, or more"}
	}
	if a.WaitLimit < 0 {
		return nil, &InvalidError{Field: at + ".WaitLimit", Value: a.WaitLimit, Want: "0 for no limit, or more; to ask once there is TryAcquire"}
	}
	if a.AtLeast < 0 || c.MaxTTL > 0 && a.AtLeast > c.MaxTTL {
		want := "0 for no such time, or more"
		if a.AtLeast > 0 {
			want = fmt.Sprintf("at most %v, the longest TTL of this backend", c.MaxTTL)
		}
		return nil, &InvalidError{Field: at + ".AtLeast", Value: a.AtLeast, Want: want}
	}
	if err := abstractions.ValidateMetadata(a.Metadata); err != nil {
		return nil, err
	}
	manual := o.NoAutoRenew || a.NoAutoRenew
	field, ttl, fallback := optionsType+".TTL", a.TTL, time.Duration(0)
	if a.TTL == 0 || a.TTL == Infinite {
		field, ttl, fallback = "Options.TTL", o.TTL, max(defaultTTL, c.MinTTL)
	}
	var err error
	if p.FirstTTL, err = o.fitTTL(field, ttl, fallback, manual, c); err != nil {
		return nil, err
	}
	if o.TTLPolicy != nil && name != "" && a.TTL != Infinite {
		if chosen := o.TTLPolicy(TTLRequest{Name: name, TTL: p.FirstTTL}); chosen > 0 {
			p.FirstTTL = o.nearestTTL(chosen, c)
		}
	}
	if p.TTL = p.FirstTTL; a.TTL == Infinite {
		if a.MaxRenewals > 0 {
			return nil, &InvalidError{Field: at + ".MaxRenewals", Value: a.MaxRenewals, Want: "0 for an infinite lease, which each renewal verifies"}
		}
		if err := c.ValidateTTL(optionsType+".TTL", Infinite); err != nil {
			return nil, err
		}
		if manual {
			return nil, &InvalidError{Field: optionsType + ".TTL", Value: Infinite, Want: "auto-renewal: an infinite lease is made by its first renewal and verified by the others"}
		}
		p.TTL = Infinite
	}
	if p.Cadence, err = o.cadence(optionsType, a, p); err != nil {
		return nil, err
	}
	p.FirstTTL = max(p.FirstTTL, lifecycle.RoundUp(a.AtLeast, c.Granularity)) // the cadence of renewals does not change
	return p, nil
}

// withTTL returns the settings of a lease with another TTL. Its renewals keep their share of the TTL.
func (o *Options) withTTL(s *engine.Settings, ttl time.Duration, c Capabilities) (*engine.Settings, error) {
	if ttl == Infinite || s.TTL == Infinite {
		return nil, &InvalidError{Field: "ttl", Value: ttl, Want: "a finite TTL, for a lease whose TTL is finite"}
	}
	ttl, err := o.fitTTL("ttl", ttl, 0, s.Cadence == trust.Forever, c)
	if err != nil {
		return nil, err
	}
	changed := *s
	changed.TTL, changed.FirstTTL = ttl, ttl
	if s.Cadence != trust.Forever {
		changed.Cadence = time.Duration(float64(s.Cadence) / float64(s.TTL) * float64(ttl))
		if changed.Cadence < minCadence || changed.Cadence >= o.window(ttl) {
			return nil, &InvalidError{Field: "ttl", Value: ttl, Want: fmt.Sprintf("time for a renewal after %v, beside the margin of Tuning.DriftFactor and DriftFloor", changed.Cadence)}
		}
	}
	return &changed, nil
}

// fitTTL makes a TTL fit the backend, or returns an error.
func (o *Options) fitTTL(field string, ttl, fallback time.Duration, manual bool, c Capabilities) (time.Duration, error) {
	if ttl == 0 {
		ttl = fallback
		if c.MaxTTL > 0 {
			ttl = min(ttl, c.MaxTTL)
		}
	}
	if c.MaxTTL > 0 && ttl > c.MaxTTL && !manual {
		ttl = c.MaxTTL
	}
	if o.RaiseToMinTTL && ttl > 0 {
		ttl = max(ttl, c.MinTTL)
	}
	ttl = lifecycle.RoundUp(ttl, c.Granularity)
	if err := c.ValidateTTL(field, ttl); err != nil {
		invalid := (*InvalidError)(nil)
		switch {
		case !errors.As(err, &invalid):
		case ttl > 0 && ttl < c.MinTTL:
			invalid.Want += "; or set Options.RaiseToMinTTL"
		case manual && c.MaxTTL > 0 && ttl > c.MaxTTL && ttl != Infinite:
			invalid.Want += "; longer ones need auto-renewal"
		}
		return 0, err
	}
	if window := o.window(ttl); window <= 0 {
		return 0, &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("more than %v, the margin of Tuning.DriftFactor and DriftFloor", ttl-window)}
	}
	return ttl, nil
}

// nearestTTL adjusts ttl, the choice of a policy, to the nearest TTL that the backend grants and that leaves time for renewals at
// the default fraction.
func (o *Options) nearestTTL(ttl time.Duration, c Capabilities) time.Duration {
	limit := trust.Forever / 2
	if c.MaxTTL > 0 {
		limit = c.MaxTTL
	}
	return lifecycle.RoundUp(min(max(ttl, c.MinTTL, o.minRenewableTTL()), limit), c.Granularity)
}

// cadence returns the time from one renewal to the next.
func (o *Options) cadence(optionsType string, a *AcquireOptions, p *engine.Settings) (time.Duration, error) {
	fraction, every, source := o.RenewFraction, o.RenewCadence, "Options"
	if a.RenewFraction != 0 || a.RenewCadence != 0 {
		fraction, every, source = a.RenewFraction, a.RenewCadence, optionsType
	}
	switch {
	case (fraction != 0 || every != 0) && (o.NoAutoRenew || a.NoAutoRenew && source == optionsType):
		invalid := &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "0 with NoAutoRenew, which leaves renewal to Lease.Renew"}
		if fraction == 0 {
			invalid.Field, invalid.Value = source+".RenewCadence", every
		}
		return 0, invalid
	case fraction != 0 && every != 0:
		return 0, &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "0 when RenewCadence is set: use one of the two"}
	case fraction != 0 && !(fraction > 0 && fraction < 1):
		return 0, &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "more than 0 and less than 1"}
	case every < 0:
		return 0, &InvalidError{Field: source + ".RenewCadence", Value: every, Want: "more than 0; or 0 for the default"}
	}
	if o.NoAutoRenew || a.NoAutoRenew {
		return trust.Forever, nil
	}
	byFraction := every == 0
	if byFraction {
		every = time.Duration(cmp.Or(fraction, lifecycle.DefaultFraction) * float64(p.FirstTTL))
	} else if p.TTL != Infinite && cmp.Or(a.TTL, o.TTL) > p.TTL {
		// The TTL was cut to the backend's maximum; the cadence was meant for the longer TTL.
		every = min(every, time.Duration(lifecycle.DefaultFraction*float64(p.TTL)))
	}
	// The bound holds for an infinite lease too: its holder must notice a break within the grace.
	window := o.window(p.FirstTTL)
	if every >= minCadence && every < window {
		return every, nil
	}
	if err := o.tooShortError(optionsType, a, p.FirstTTL); err != nil {
		return 0, err
	}
	invalid := &InvalidError{Field: source + ".RenewCadence", Value: every}
	if byFraction {
		invalid.Field, invalid.Value = source+".RenewFraction", fraction
	}
	invalid.Want = fmt.Sprintf("a renewal after %v or more, and before %v, for which a lease of %v is trusted", minCadence, window, p.FirstTTL)
	return 0, invalid
}

// tooShortError returns an error if ttl leaves no time for a renewal even at the default fraction, so that the error does not
// blame RenewFraction or RenewCadence.
func (o *Options) tooShortError(optionsType string, a *AcquireOptions, ttl time.Duration) error {
	if o.renewableFraction() <= 0 {
		return &InvalidError{Field: "Options.Tuning.DriftFactor", Value: o.Tuning.DriftFactor, Want: fmt.Sprintf("under %.3g, to leave time for renewals", 1-lifecycle.DefaultFraction)}
	}
	shortest := o.minRenewableTTL()
	if ttl >= shortest {
		return nil
	}
	field := "Options.TTL"
	if a.TTL != 0 && a.TTL != Infinite {
		field = optionsType + ".TTL"
	}
	return &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("at least %v, to leave time for renewals beside the margin of Tuning.DriftFactor and DriftFloor", shortest)}
}

// renewableFraction returns the fraction of the TTL that DriftFactor and the default RenewFraction
// leave. DriftFloor must fit into that part of the TTL.
func (o *Options) renewableFraction() float64 {
	return 1 - o.Tuning.DriftFactor - lifecycle.DefaultFraction
}

// minRenewableTTL returns the shortest TTL that leaves time for a renewal at the default fraction,
// if renewableFraction is positive.
func (o *Options) minRenewableTTL() time.Duration {
	shortest := 2 * minCadence
	if fraction := o.renewableFraction(); fraction > 0 {
		shortest = max(shortest, time.Duration(float64(o.Tuning.DriftFloor)/fraction))
	}
	return (shortest + 100*time.Microsecond).Truncate(100 * time.Microsecond)
}

// minCadence is the shortest time from one renewal to the next.
const minCadence = time.Millisecond

// window returns the time for which a grant of ttl may be trusted: see trust.Window.
func (o *Options) window(ttl time.Duration) time.Duration {
	return trust.Window(ttl, o.Tuning.DriftFactor, o.Tuning.DriftFloor)
}
