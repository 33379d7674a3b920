package leasing

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel"
)

const (
	defaultTTL      = 30 * time.Second
	defaultFraction = 0.6
	// renewJitter is the part of the cadence that is taken off at random, so
	// that leases acquired together don't stay in step. It is a part, not a
	// time: a second of jitter would kill a lease of two.
	renewJitter = 0.1
)

// withDefaults fills in what is zero and checks the rest.
func (o Options) withDefaults(c Capabilities) (Options, error) {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.HealthTimeout = cmp.Or(o.HealthTimeout, time.Second)
	o.RenewConcurrency = cmp.Or(o.RenewConcurrency, 16)
	o.RenewBatch = cmp.Or(o.RenewBatch, 256)
	o.MinPoll = cmp.Or(o.MinPoll, 25*time.Millisecond)
	o.MaxPoll = cmp.Or(o.MaxPoll, max(time.Second, o.MinPoll))
	o.ObserverTimeout = cmp.Or(o.ObserverTimeout, 5*time.Second)
	o.DriftFactor = cmp.Or(o.DriftFactor, 0.01)
	o.DriftFloor = cmp.Or(o.DriftFloor, 2*time.Millisecond)
	if o.Owner == "" {
		o.Owner = defaultOwner()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = mathrand.Float64
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	err := o.validate(c)
	return o, err
}

func (o *Options) validate(c Capabilities) error {
	if err := abstractions.ValidateText("Options.Owner", o.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	for _, bound := range []struct {
		field string
		value time.Duration
	}{
		{"RequestTimeout", o.RequestTimeout},
		{"HealthTimeout", o.HealthTimeout},
		{"MinPoll", o.MinPoll},
		{"ObserverTimeout", o.ObserverTimeout},
		{"DriftFloor", o.DriftFloor},
		{"RenewConcurrency", time.Duration(o.RenewConcurrency)},
		{"RenewBatch", time.Duration(o.RenewBatch)},
	} {
		if bound.value <= 0 {
			return &InvalidError{Field: "Options." + bound.field, Value: int64(bound.value), Want: "more than 0; or 0 for the default"}
		}
	}
	if o.MaxPoll < o.MinPoll {
		return &InvalidError{Field: "Options.MaxPoll", Value: o.MaxPoll, Want: fmt.Sprintf("at least MinPoll, which is %v", o.MinPoll)}
	}
	if !(o.DriftFactor > 0 && o.DriftFactor < 0.5) {
		return &InvalidError{Field: "Options.DriftFactor", Value: o.DriftFactor, Want: "more than 0 and under 0.5; or 0 for the default"}
	}
	if o.TTL == Infinite {
		return &InvalidError{Field: "Options.TTL", Value: Infinite, Want: "a finite time; set AcquireOptions.TTL for a lease without end"}
	}
	p, err := o.plan("Options", nil, c)
	if err == nil && o.TTL == 0 {
		o.TTL = p.ttl
	}
	return err
}

// defaultOwner tells processes of one machine apart, and the managers of one process.
func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil || abstractions.ValidateText("Owner", host, MaxOwnerBytes-32) != nil {
		host = "unknown-host"
	}
	var random [4]byte
	rand.Read(random[:])
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}

// plan is how one lease will be kept: the options of the manager and of the
// acquire, made to fit the backend.
type plan struct {
	ttl         time.Duration // of renewals
	firstTTL    time.Duration // of the acquire: finite also for an infinite lease
	cadence     time.Duration // from one renewal's sending to the next; forever without auto-renewal
	maxRenewals int           // 0: no limit
	waitLimit   time.Duration // 0: none
	metadata    map[string]string
	observer    Observer
}

// refuseWaitLimit is for calls that do not wait.
func (p plan) refuseWaitLimit() error {
	if p.waitLimit == 0 {
		return nil
	}
	return &InvalidError{Field: "AcquireOptions.WaitLimit", Value: p.waitLimit, Want: "0: this call does not wait"}
}

// orZero returns the options of a call, of which nil means the defaults.
func orZero[T any](options *T) (zero T) {
	if options == nil {
		return zero
	}
	return *options
}

// plan resolves the options of an acquire. Its errors name fields as the
// caller wrote them: of, "Options" or "AcquireOptions", is where it set them.
func (o *Options) plan(of string, given *AcquireOptions, c Capabilities) (plan, error) {
	a := orZero(given)
	p := plan{maxRenewals: a.MaxRenewals, waitLimit: a.WaitLimit, metadata: maps.Clone(a.Metadata), observer: a.Observer}
	if a.MaxRenewals < 0 {
		return p, &InvalidError{Field: "AcquireOptions.MaxRenewals", Value: a.MaxRenewals, Want: "0 for no limit, or more"}
	}
	if a.WaitLimit < 0 {
		return p, &InvalidError{Field: "AcquireOptions.WaitLimit", Value: a.WaitLimit, Want: "0 for no limit, or more; to ask once there is TryAcquire"}
	}
	if err := abstractions.ValidateMetadata(a.Metadata); err != nil {
		return p, err
	}
	manual := o.NoAutoRenew || a.NoAutoRenew
	var err error
	if a.TTL == 0 || a.TTL == Infinite {
		if p.ttl, err = o.fitTTL("Options.TTL", o.TTL, max(defaultTTL, c.MinTTL), manual, c); err != nil {
			return p, err
		}
		p.firstTTL = p.ttl
	}
	if a.TTL == Infinite {
		if a.MaxRenewals > 0 {
			return p, &InvalidError{Field: "AcquireOptions.MaxRenewals", Value: a.MaxRenewals, Want: "0 for an infinite lease, which each renewal verifies"}
		}
		if err := c.ValidateTTL(of+".TTL", Infinite); err != nil {
			return p, err
		}
		if manual {
			return p, &InvalidError{Field: of + ".TTL", Value: Infinite, Want: "auto-renewal: an infinite lease is made by its first renewal and verified by the others"}
		}
		p.ttl = Infinite
	} else if a.TTL != 0 {
		if p.ttl, err = o.fitTTL(of+".TTL", a.TTL, 0, manual, c); err != nil {
			return p, err
		}
		p.firstTTL = p.ttl
	}
	p.cadence, err = o.cadence(of, a, p)
	return p, err
}

// fitTTL makes a TTL one that the backend grants, or says why it can't.
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
	if unit := c.Granularity; unit > 0 && ttl%unit != 0 && ttl > 0 {
		ttl += unit - ttl%unit
	}
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
	if window := o.drift().window(ttl); window <= 0 {
		return 0, &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("more than %v, the margin of Options.DriftFactor and DriftFloor", ttl-window)}
	}
	return ttl, nil
}

func (o *Options) drift() drift { return drift{o.DriftFactor, o.DriftFloor} }

// cadence is the time from one renewal to the next.
func (o *Options) cadence(of string, a AcquireOptions, p plan) (time.Duration, error) {
	fraction, every, source := o.RenewFraction, o.RenewCadence, "Options"
	if a.RenewFraction != 0 || a.RenewCadence != 0 {
		fraction, every, source = a.RenewFraction, a.RenewCadence, of
	}
	switch {
	case (fraction != 0 || every != 0) && (o.NoAutoRenew || a.NoAutoRenew && source == of):
		invalid := &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "0 with NoAutoRenew, which leaves renewal to Lease.Renew"}
		if fraction == 0 {
			invalid.Field, invalid.Value = source+".RenewCadence", every
		}
		return 0, invalid
	case fraction != 0 && every != 0:
		return 0, &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "0 when RenewCadence is set: use one of them"}
	case fraction != 0 && !(fraction > 0 && fraction < 1):
		return 0, &InvalidError{Field: source + ".RenewFraction", Value: fraction, Want: "more than 0 and less than 1"}
	case every < 0:
		return 0, &InvalidError{Field: source + ".RenewCadence", Value: every, Want: "more than 0; or 0 for the default"}
	}
	if o.NoAutoRenew || a.NoAutoRenew {
		return forever, nil
	}
	byFraction := every == 0
	if byFraction {
		every = time.Duration(cmp.Or(fraction, defaultFraction) * float64(p.firstTTL))
	} else if p.ttl != Infinite && cmp.Or(a.TTL, o.TTL) > p.ttl {
		// The TTL was cut to the backend's maximum; the cadence was meant for the longer one.
		every = min(every, time.Duration(defaultFraction*float64(p.ttl)))
	}
	// An infinite lease too: its holder has to hear of a break within the grace.
	window := o.drift().window(p.firstTTL)
	if every >= minCadence && every < window {
		return every, nil
	}
	if err := o.tooShort(of, a, p.firstTTL); err != nil {
		return 0, err
	}
	invalid := &InvalidError{Field: source + ".RenewCadence", Value: every}
	if byFraction {
		invalid.Field, invalid.Value = source+".RenewFraction", fraction
	}
	invalid.Want = fmt.Sprintf("a renewal after %v or more, and before %v, for which a lease of %v is trusted", minCadence, window, p.firstTTL)
	return 0, invalid
}

// tooShort is the error of a TTL that leaves no time for a renewal at the default
// fraction either, so that RenewFraction and RenewCadence are not to blame.
func (o *Options) tooShort(of string, a AcquireOptions, ttl time.Duration) error {
	room := 1 - o.DriftFactor - defaultFraction // the part of the TTL that both leave, for DriftFloor at least
	if room <= 0 {
		return &InvalidError{Field: "Options.DriftFactor", Value: o.DriftFactor, Want: fmt.Sprintf("under %.3g, to leave time for renewals", 1-defaultFraction)}
	}
	least := max(time.Duration(float64(o.DriftFloor)/room), 2*minCadence)
	if ttl > least {
		return nil
	}
	field := "Options.TTL"
	if a.TTL != 0 && a.TTL != Infinite {
		field = of + ".TTL"
	}
	least = (least + 100*time.Microsecond).Truncate(100 * time.Microsecond)
	return &InvalidError{Field: field, Value: ttl, Want: fmt.Sprintf("at least %v, to leave time for renewals beside the margin of Options.DriftFactor and DriftFloor", least)}
}

// jittered takes up to renewJitter off a cadence; random is in [0, 1).
func jittered(cadence time.Duration, random float64) time.Duration {
	if cadence == forever {
		return forever
	}
	return cadence - time.Duration(float64(cadence)*renewJitter*random)
}

// minCadence is the shortest time from one renewal to the next.
const minCadence = time.Millisecond

// minRetry is the shortest pause before a retry, and with that the least
// trust in which another attempt makes sense.
const minRetry = 5 * time.Millisecond

// attemptBound is how long one renewal may take: a third of the trust left, so
// that three fit.
func attemptBound(left, limit time.Duration) time.Duration {
	if left == forever {
		return limit
	}
	return min(left/3, limit)
}

// retryPause is the pause after the n-th failure in a row (from 1): it doubles
// from a fiftieth of the TTL (at most a second), is jittered by a half, and stays within a tenth
// of the trust left, so that attempts grow denser towards the end.
func retryPause(n int, ttl, left time.Duration, random float64) time.Duration {
	pause := time.Duration(math.Ldexp(float64(min(ttl/50, time.Second)), min(n-1, 10)))
	pause = min(pause, left/10)
	pause -= time.Duration(float64(pause) * random / 2)
	return max(pause, minRetry)
}
