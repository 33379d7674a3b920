package memlease

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// DefaultRetention is how long a free name is remembered by default.
const DefaultRetention = time.Hour

// Forever as a retention forgets nothing.
const Forever = abstractions.Infinite

// Options configure a Provider. The zero value is good.
//
// In JSON, and as the query of a URL, the fields are retention (a Go duration
// such as "90m", or "forever"), history and history_renewals.
type Options struct {
	// Retention is how long a name is remembered after its lease has ended.
	// A request that was delayed for longer than that may land after its own
	// clean-up. Default DefaultRetention; or Forever.
	Retention time.Duration
	// History is how many of the latest changes to a name are kept; 0 means
	// none, and the provider is no leasing.HistoryReader then.
	History int
	// HistoryRenewals records renewals too.
	HistoryRenewals bool
	// Now is the provider's clock. It is called under a lock, must be safe for
	// concurrent use and should not go back. Default time.Now. It is not a
	// part of JSON or URL.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	if o.Retention < 0 {
		return o, &abstractions.InvalidError{Field: "Options.Retention", Value: o.Retention, Want: "0 (the default) or more"}
	}
	if o.History < 0 {
		return o, &abstractions.InvalidError{Field: "Options.History", Value: o.History, Want: "a number of entries, or 0 for none"}
	}
	if o.HistoryRenewals && o.History == 0 {
		return o, &abstractions.InvalidError{Field: "Options.HistoryRenewals", Value: true, Want: "History to be set as well"}
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// UnmarshalJSON reads options; a field it does not know is an error.
func (o *Options) UnmarshalJSON(data []byte) error {
	var fields struct {
		Retention       *string `json:"retention"`
		History         *int    `json:"history"`
		HistoryRenewals *bool   `json:"history_renewals"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		return &abstractions.InvalidError{Field: "Options", Value: string(data), Want: "retention, history and history_renewals: " + err.Error()}
	}
	if fields.Retention != nil {
		if err := o.set("retention", *fields.Retention); err != nil {
			return err
		}
	}
	if fields.History != nil {
		o.History = *fields.History
	}
	if fields.HistoryRenewals != nil {
		o.HistoryRenewals = *fields.HistoryRenewals
	}
	return nil
}

// Open makes a provider. Unlike New it reports options that can't work as
// errors that match leasing.ErrInvalid, and like every provider's Open it does
// nothing if ctx has ended.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return newProvider(options), nil
}

// OpenURL makes a provider from a URL: "memory://", or with options as a query,
// "memory://?retention=10m&history=100". Each call makes one of its own: to
// share leases, share the provider.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	options, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return Open(ctx, options)
}

func parseURL(rawURL string) (Options, error) {
	var options Options
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "memory" || u.Host != "" || u.User != nil || u.Opaque != "" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return options, &abstractions.InvalidError{Field: "URL", Value: rawURL, Want: "memory://, with options as a query if need be"}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return options, &abstractions.InvalidError{Field: "URL", Value: rawURL, Want: "a well-formed query"}
	}
	for key, values := range query {
		if len(values) > 1 {
			return options, &abstractions.InvalidError{Field: key, Value: fmt.Sprint(values), Want: "one value"}
		}
		if err := options.set(key, values[0]); err != nil {
			return options, err
		}
	}
	return options, nil
}

// set sets a field by its name in JSON and URLs.
func (o *Options) set(field, value string) (err error) {
	var want string
	switch field {
	case "retention":
		want = `a Go duration such as "90m", or "forever"`
		if value == "forever" {
			o.Retention = Forever
		} else {
			o.Retention, err = time.ParseDuration(value)
		}
	case "history":
		want = "a number of entries"
		o.History, err = strconv.Atoi(value)
	case "history_renewals":
		want = "true or false"
		o.HistoryRenewals, err = strconv.ParseBool(value)
	default:
		return &abstractions.InvalidError{Field: "parameter", Value: field, Want: "retention, history or history_renewals"}
	}
	if err != nil {
		return &abstractions.InvalidError{Field: field, Value: value, Want: want}
	}
	return nil
}
