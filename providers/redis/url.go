package redislease

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// location is where a URL says that Redis is. It is taken apart here, and not by
// net/url, which knows no lists of hosts and quotes the URL in its errors.
type location struct {
	scheme         string
	user, password string
	hosts          []string   // "host" or "host:port"; none for a socket
	path           string     // "/0", or a socket's
	query          url.Values // go-redis' parameters
}

// withURL takes over what the URL's query says, and returns the rest.
func (o Options) withURL() (Options, location, error) {
	l, err := locate(o.URL)
	if err != nil {
		return o, l, err
	}
	for key, values := range l.query {
		known, err := o.set(key, values)
		if err != nil {
			return o, l, err
		}
		if known {
			delete(l.query, key)
		}
	}
	return o, l, nil
}

// locate takes a URL apart. What a password with an @, a /, a ? or a # that was
// not escaped would do to it is an error.
func locate(rawURL string) (location, error) {
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found || scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return location{}, badURL("redis://, rediss:// or unix://")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || !pairs(rawQuery) || strings.Contains(rest, "#") {
		return location{}, badURL("name=value&... after the ?, no fragment, and a password with ? written as %3F, # as %23")
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	l := location{scheme: scheme, query: query}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if l.user, l.password, err = credentials(authority[:i]); err != nil {
			return location{}, err
		}
		authority = authority[i+1:]
	}
	if scheme == "unix" {
		return l.socket(authority, path)
	}
	return l.servers(authority, path)
}

// pairs reports whether a query could not be the end of a password.
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

// credentials reads what stands before the @.
func credentials(text string) (user, password string, err error) {
	rawUser, rawPassword, found := strings.Cut(text, ":")
	user, err = url.PathUnescape(rawUser)
	if err == nil {
		password, err = url.PathUnescape(rawPassword)
	}
	if err != nil {
		return "", "", badURL("a user and password with % written as %25")
	}
	if !found || password == "" {
		return "", "", badURL("user:password@ or :password@ before the host; or nothing")
	}
	return user, password, nil
}

func (l location) socket(authority, path string) (location, error) {
	text, err := url.PathUnescape(path)
	if authority != "" || err != nil || text == "" || text == "/" {
		return location{}, badURL("unix:///path, or unix://user:password@/path")
	}
	l.path = text
	return l, nil
}

// number is the path of a URL: a database's number.
var number = regexp.MustCompile(`^(/[0-9]{0,5})?$`)

func (l location) servers(authority, path string) (location, error) {
	if !number.MatchString(path) {
		return location{}, badURL("the number of a database as its path, and a password with / written as %2F")
	}
	l.path = path
	for host := range strings.SplitSeq(authority, ",") {
		if _, _, ok := splitHost(host); !ok {
			return location{}, badURL("host or host:port, several separated by commas, and a password with @ written as %40")
		}
		l.hosts = append(l.hosts, host)
	}
	return l, nil
}

var hostname = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// splitHost takes "host", "host:port", or an IPv6 address in brackets apart.
func splitHost(text string) (host, port string, ok bool) {
	host = text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host, port = text[:i], text[i+1:]
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", false
		}
	}
	if v6, found := strings.CutPrefix(host, "["); found {
		v6, found = strings.CutSuffix(v6, "]")
		addr, err := netip.ParseAddr(v6)
		return v6, port, found && err == nil && addr.Is6()
	}
	return host, port, hostname.MatchString(host)
}

// addrs are the hosts with their ports.
func (l location) addrs(port string) []string {
	addrs := make([]string, len(l.hosts))
	for i, text := range l.hosts {
		host, own, _ := splitHost(text)
		if own != "" {
			addrs[i] = net.JoinHostPort(host, own)
			continue
		}
		addrs[i] = net.JoinHostPort(host, port)
	}
	return addrs
}

// forLibrary is the URL that go-redis parses: without user and password, which
// its errors then can't quote.
func (l location) forLibrary(addr string) string {
	u := url.URL{Scheme: l.scheme, Host: addr, Path: l.path, RawQuery: l.query.Encode()}
	return u.String()
}

// parameters are the tags of the fields that a URL's query may set.
var parameters = []string{
	"mode", "master", "sentinel_username", "prefix", "retention", "timeout", "max_ttl", "node_timeout",
}

// elsewhere are parameters of go-redis that a lease can't do with, and some that
// have another place here.
var elsewhere = map[string]string{
	"username":                   "user:password@ before the host",
	"password":                   "user:password@ before the host",
	"sentinel_password":          "it in Options.SentinelPassword: a query is shown where the password before the host is not",
	"master_name":                "master",
	"bootstrap":                  "a call of Provider.Bootstrap, once: in a URL it would let servers vote that have lost their data",
	"addr":                       "several hosts, separated by commas",
	"context_timeout_enabled":    "nothing: it is always on",
	"read_only":                  "nothing: leases are read from masters",
	"replica_only":               "nothing: leases are read from masters",
	"route_by_latency":           "nothing: leases are read from masters",
	"route_by_latency_tolerance": "nothing: leases are read from masters",
	"route_randomly":             "nothing: leases are read from masters",
	"use_disconnected_replicas":  "nothing: leases are read from masters",
}

// set sets the field with that tag. It reports false for a parameter that may
// be go-redis'.
func (o *Options) set(key string, values []string) (known bool, err error) {
	if want, found := elsewhere[key]; found {
		return true, &abstractions.InvalidError{Field: "Options.URL parameter", Value: key, Want: want}
	}
	if !slices.Contains(parameters, key) {
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
	case "mode":
		o.Mode = Mode(value)
	case "master":
		o.Master = value
	case "sentinel_username":
		o.SentinelUsername = value
	case "prefix":
		o.Prefix = value
	default:
		field := map[string]*time.Duration{"retention": &o.Retention, "timeout": &o.Timeout, "max_ttl": &o.MaxTTL, "node_timeout": &o.NodeTimeout}[key]
		err = (*duration)(field).UnmarshalText([]byte(value))
		want = `a duration such as "90m", or "forever"`
	}
	return want, err
}
