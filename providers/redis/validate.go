package redislease

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func invalid(field string, value any, want string) error {
	return &abstractions.InvalidError{Field: "Options." + field, Value: value, Want: want}
}

// complete validates the options, fills in the defaults, and returns the field that
// says where Redis is, and what the URL says of it.
func (o *Options) complete() (field string, l location, err error) {
	if field, err = providerkit.ExactlyOne(o, "URL", "Client", "Clients"); err != nil {
		return field, l, err
	}
	if field == "URL" {
		if l, err = o.locate(); err != nil {
			return field, l, err
		}
	}
	if o.Credentials != nil && (field != "URL" || l.user != "" || l.password != "") {
		return field, l, invalid("Credentials", providerkit.NotShown, "nothing with Client or Clients, or with a user or password in the URL")
	}
	if o.Mode, err = o.mode(field, l); err != nil {
		return field, l, err
	}
	if err := o.validateModeOnly(); err != nil {
		return field, l, err
	}
	if err := providerkit.Complete(o); err != nil {
		return field, l, err
	}
	return field, l, o.validate()
}

// validateModeOnly refuses what another mode would read and this one would not.
func (o *Options) validateModeOnly() error {
	for _, f := range []struct {
		field string
		value any
		set   bool
		mode  Mode
	}{
		{"Master", o.Master, o.Master != "", Sentinel},
		{"SentinelUsername", o.SentinelUsername, o.SentinelUsername != "", Sentinel},
		{"SentinelPassword", providerkit.NotShown, o.SentinelPassword != "", Sentinel},
		{"MaxTTL", o.MaxTTL, o.MaxTTL != 0, Redlock},
		{"NodeTimeout", o.NodeTimeout, o.NodeTimeout != 0, Redlock},
	} {
		if f.set && o.Mode != f.mode {
			return invalid(f.field, f.value, fmt.Sprintf("nothing: it is for mode %s, this is %s", f.mode, o.Mode))
		}
	}
	return nil
}

// validate is about what no tag says. Braces in the prefix would make the hash tag
// another.
func (o *Options) validate() error {
	if o.Mode == Redlock {
		defaultTo(&o.MaxTTL, DefaultMaxTTL)
	}
	if most := o.MaxTTL / 2; o.NodeTimeout > most {
		return invalid("NodeTimeout", o.NodeTimeout, fmt.Sprintf("%v to %v; or 0 for the default", time.Millisecond, most))
	}
	if strings.ContainsAny(o.Prefix, "{}") || strings.ContainsFunc(o.Prefix, unicode.IsControl) || !utf8.ValidString(o.Prefix) {
		return invalid("Prefix", o.Prefix, "UTF-8 without braces and control characters")
	}
	return nil
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
