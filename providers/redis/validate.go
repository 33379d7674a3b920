package redislease

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// maxPrefixBytes bounds Options.Prefix: it is in every key.
	maxPrefixBytes = 100
	// maxRetention keeps instants within what Go can count.
	maxRetention = 10 * 365 * 24 * time.Hour
)

// complete validates the options of a mode and fills in the defaults.
func (o Options) complete() (Options, error) {
	if err := o.validateModeOnly(); err != nil {
		return o, err
	}
	defaultTo(&o.Prefix, DefaultPrefix)
	defaultTo(&o.Retention, DefaultRetention)
	defaultTo(&o.Timeout, DefaultTimeout)
	if o.Mode == Redlock {
		defaultTo(&o.MaxTTL, DefaultMaxTTL)
	}
	if err := validatePrefix(o.Prefix); err != nil {
		return o, err
	}
	return o, o.validateDurations()
}

// validateModeOnly refuses what another mode would read and this one would not.
func (o Options) validateModeOnly() error {
	for _, f := range []struct {
		field string
		value any
		set   bool
		mode  Mode
	}{
		{"Master", o.Master, o.Master != "", Sentinel},
		{"SentinelUsername", o.SentinelUsername, o.SentinelUsername != "", Sentinel},
		{"SentinelPassword", notShown, o.SentinelPassword != "", Sentinel},
		{"MaxTTL", o.MaxTTL, o.MaxTTL != 0, Redlock},
		{"NodeTimeout", o.NodeTimeout, o.NodeTimeout != 0, Redlock},
	} {
		if f.set && o.Mode != f.mode {
			return &abstractions.InvalidError{Field: "Options." + f.field, Value: f.value, Want: fmt.Sprintf("nothing: it is for mode %s, this is %s", f.mode, o.Mode)}
		}
	}
	return nil
}

func (o Options) validateDurations() error {
	for _, d := range []struct {
		field         string
		value         time.Duration
		least, most   time.Duration
		zero, forever bool
	}{
		{field: "Retention", value: o.Retention, least: time.Millisecond, most: maxRetention, forever: true},
		{field: "Timeout", value: o.Timeout, least: time.Millisecond, most: time.Hour},
		{field: "MaxTTL", value: o.MaxTTL, least: redlockMinTTL, most: maxTTL, zero: o.Mode != Redlock},
		{field: "NodeTimeout", value: o.NodeTimeout, least: time.Millisecond, most: max(o.MaxTTL/2, time.Millisecond), zero: true},
	} {
		if d.zero && d.value == 0 || d.forever && d.value == Forever || d.value >= d.least && d.value <= d.most {
			continue
		}
		return &abstractions.InvalidError{Field: "Options." + d.field, Value: d.value, Want: fmt.Sprintf("%v to %v; or 0 for the default", d.least, d.most)}
	}
	return nil
}

// validatePrefix refuses braces, which would make the hash tag another, and what
// can't be typed.
func validatePrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefixBytes:
	case strings.ContainsAny(prefix, "{}") || strings.ContainsFunc(prefix, unicode.IsControl):
	case !utf8.ValidString(prefix):
	default:
		return nil
	}
	return &abstractions.InvalidError{Field: "Options.Prefix", Value: prefix, Want: fmt.Sprintf("1 to %d bytes of UTF-8 without braces and control characters", maxPrefixBytes)}
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
