package sqllease

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// notShown stands for what may hold a password.
const notShown = "(not shown)"

// UnmarshalJSON reads options. Fields it doesn't know are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error {
	type plain Options // without this method
	fields := struct {
		*plain
		Retention        *duration `json:"retention"`
		HistoryRetention *duration `json:"history_retention"`
		Timeout          *duration `json:"timeout"`
	}{(*plain)(o), (*duration)(&o.Retention), (*duration)(&o.HistoryRetention), (*duration)(&o.Timeout)}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		// The error names a field or an offset, never a value of another field.
		return &abstractions.InvalidError{Field: "Options", Value: notShown, Want: "the JSON of sqllease.Options: " + err.Error()}
	}
	return nil
}

// duration is a time.Duration as text.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*d = duration(Forever)
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func dialectOf(rawURL string) (Dialect, error) {
	scheme, _, found := strings.Cut(rawURL, "://")
	switch {
	case found && (scheme == "postgres" || scheme == "postgresql"):
		return Postgres, nil
	case found && scheme == "sqlite":
		return SQLite, nil
	}
	return "", &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: "postgres://... or sqlite://..."}
}

// withURL takes over what the URL's query says, and returns what is left of
// the URL for the driver: a postgres URL, or the path of an SQLite file.
func (o Options) withURL(dialect Dialect) (Options, string, error) {
	before, rawQuery, _ := strings.Cut(o.URL, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || strings.Contains(o.URL, "#") {
		return o, "", &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: "a well-formed query and no fragment"}
	}
	for key, values := range query {
		known, err := o.set(key, values)
		if err != nil {
			return o, "", err
		}
		if known {
			delete(query, key)
		} else if dialect == SQLite {
			return o, "", &abstractions.InvalidError{Field: "Options.URL parameter", Value: key, Want: "one of " + strings.Join(urlParameters, ", ")}
		}
	}
	if dialect == SQLite {
		path, err := url.PathUnescape(strings.TrimPrefix(before, "sqlite://"))
		if err != nil {
			return o, "", &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: "a well-formed path"}
		}
		return o, path, nil
	}
	if len(query) > 0 {
		before += "?" + query.Encode()
	}
	return o, before, nil
}

var urlParameters = []string{
	"schema", "table", "migrate", "retention", "history", "history_renewals", "history_retention", "timeout", "no_wakeups", "synchronous",
}

// set sets the field with that tag. It reports false for another parameter.
func (o *Options) set(key string, values []string) (known bool, err error) {
	if !slices.Contains(urlParameters, key) {
		return false, nil
	}
	value, want := values[len(values)-1], "one value"
	if len(values) == 1 {
		want, err = o.setOne(key, value)
	}
	if err != nil || len(values) != 1 {
		return true, &abstractions.InvalidError{Field: "Options.URL parameter " + key, Value: value, Want: want}
	}
	return true, nil
}

func (o *Options) setOne(key, value string) (want string, err error) {
	switch key {
	case "schema":
		o.Schema = value
	case "table":
		o.Table = value
	case "synchronous":
		o.Synchronous = value
	case "migrate", "history", "history_renewals", "no_wakeups":
		field := map[string]*bool{"migrate": &o.Migrate, "history": &o.History, "history_renewals": &o.HistoryRenewals, "no_wakeups": &o.NoWakeups}[key]
		*field, err = strconv.ParseBool(value)
		want = "true or false"
	default:
		field := map[string]*time.Duration{"retention": &o.Retention, "history_retention": &o.HistoryRetention, "timeout": &o.Timeout}[key]
		err = (*duration)(field).UnmarshalText([]byte(value))
		want = `a duration such as "90m", or "forever"`
	}
	return want, err
}
