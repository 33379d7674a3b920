package cosmoslease

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
)

// schemes are what a URL may begin with, and what its endpoint then does.
var schemes = map[string]string{"cosmos": "https", "cosmos+http": "http"}

// withURL takes over what the URL says.
func (o Options) withURL() (Options, error) {
	scheme, rest, found := strings.Cut(o.URL, "://")
	endpoint, known := schemes[scheme]
	if !found || !known {
		return o, badURL("cosmos://, or cosmos+http:// for this machine")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || !pairs(rawQuery) || strings.Contains(rest, "#") {
		return o, badURL("name=value&... after the ?, and no fragment")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if o, authority, err = o.withKey(authority); err != nil {
		return o, err
	}
	if o, err = o.withPath(path); err != nil {
		return o, err
	}
	for key, values := range query {
		if err := o.set(key, values); err != nil {
			return o, err
		}
	}
	o.Endpoint = endpoint + "://" + authority
	o.URL = ""
	return o, nil
}

// pairs reports whether a query could not be the end of a key.
func pairs(rawQuery string) bool {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if pair != "" && !strings.Contains(pair, "=") || strings.ContainsAny(pair, "@#") {
			return false
		}
	}
	return true
}

func badURL(want string) error {
	return &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: want}
}

// withKey reads the key that stands before the @, if there is one.
func (o Options) withKey(authority string) (Options, string, error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return o, authority, nil
	}
	user, rawKey, found := strings.Cut(authority[:at], ":")
	key, err := url.PathUnescape(rawKey)
	if user != "" || !found || err != nil || key == "" {
		return o, "", badURL(":key@ before the host, the key with / written as %2F")
	}
	if o.Key != "" {
		return o, "", badURL("no key where Options.Key is set")
	}
	o.Key = key
	return o, authority[at+1:], nil
}

// withPath reads database and container.
func (o Options) withPath(path string) (Options, error) {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if path == "" {
		return o, nil
	}
	if len(parts) != 2 {
		return o, badURL("host/database/container, and a key with / written as %2F")
	}
	for i, field := range []*string{&o.Database, &o.Container} {
		text, err := url.PathUnescape(parts[i])
		if err != nil || text == "" || *field != "" {
			return o, badURL("host/database/container, where Options.Database and Options.Container are not set")
		}
		*field = text
	}
	return o, nil
}

// parameters are the tags of the fields that a URL's query may set, and auth.
var parameters = []string{
	"auth", "database", "container", "partition_key_path", "create", "throughput", "autoscale", "prefix", "retention", "expire_documents",
	"timeout", "clock_skew", "consistency", "allow_multiple_write_regions",
}

// set sets the field with that tag.
func (o *Options) set(key string, values []string) error {
	if !slices.Contains(parameters, key) {
		return &abstractions.InvalidError{Field: "Options.URL parameter", Value: word(key), Want: "one of " + strings.Join(parameters, ", ")}
	}
	value, want := values[len(values)-1], "one value"
	var err error
	if len(values) == 1 {
		want, err = o.setOne(key, value)
	}
	if err != nil || len(values) != 1 {
		return &abstractions.InvalidError{Field: "Options.URL parameter " + key, Value: word(value), Want: want}
	}
	return nil
}

// word shows the text of an error if it looks like what was asked for: else it may be
// a key in the wrong place.
func word(text string) string {
	const longest = 24 // keys, client secrets and tokens are longer
	other := func(r rune) bool { return r >= utf8.RuneSelf || !plain(byte(r)) }
	if len(text) > longest || strings.ContainsFunc(text, other) {
		return notShown
	}
	return text
}

func (o *Options) setOne(key, value string) (want string, err error) {
	switch key {
	case "auth":
		if !o.Auth.IsZero() {
			return "nothing where Options.Auth is set", errors.New("both")
		}
		return "a mode of package auth: Auto, ManagedIdentity, ...", o.Auth.Mode.UnmarshalText([]byte(value))
	case "throughput":
		o.Throughput, err = strconv.Atoi(value)
		return "a number", err
	}
	if field, ok := map[string]*string{
		"database": &o.Database, "container": &o.Container, "partition_key_path": &o.PartitionKeyPath, "prefix": &o.Prefix, "consistency": &o.Consistency,
	}[key]; ok {
		*field = value
		return "", nil
	}
	if field, ok := map[string]*bool{
		"create": &o.Create, "autoscale": &o.Autoscale, "expire_documents": &o.ExpireDocuments, "allow_multiple_write_regions": &o.AllowMultipleWriteRegions,
	}[key]; ok {
		*field, err = strconv.ParseBool(value)
		return "true or false", err
	}
	field := map[string]*time.Duration{"retention": &o.Retention, "timeout": &o.Timeout, "clock_skew": &o.ClockSkew}[key]
	return `a duration such as "90m", or "forever"`, (*duration)(field).UnmarshalText([]byte(value))
}

// withConnectionString takes over what a connection string says. azcosmos' own
// parser needs the parts in one order, and panics without a key.
func (o Options) withConnectionString() (Options, error) {
	if o.Key != "" || !o.Auth.IsZero() || o.Credential != nil {
		return o, &abstractions.InvalidError{Field: "Options.ConnectionString", Value: notShown, Want: "no Key, Auth and Credential beside it: it has a key"}
	}
	for part := range strings.SplitSeq(o.ConnectionString, ";") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case strings.EqualFold(name, "AccountEndpoint"):
			o.Endpoint = value
		case strings.EqualFold(name, "AccountKey"):
			o.Key = value
		case part != "" && !found:
			return o, errConnectionString
		}
	}
	if o.Endpoint == "" || o.Key == "" {
		return o, errConnectionString
	}
	o.ConnectionString = ""
	return o, nil
}

var errConnectionString error = &abstractions.InvalidError{
	Field: "Options.ConnectionString", Value: notShown, Want: "AccountEndpoint=https://...;AccountKey=...;",
}

// hostOf is the host of an endpoint, to be shown.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return notShown
	}
	return u.Host
}
