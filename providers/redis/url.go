package redislease

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// location is the parsed URL of a Redis deployment.
type location struct {
	scheme         string
	user, password string
	hosts          []string   // "host" or "host:port"; none for a socket
	path           string     // "/0", or the path of a socket
	query          url.Values // go-redis' parameters
}

// locate parses the URL, and sets the options that its query names.
func (o *Options) locate() (location, error) {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return location{}, err
	}
	l := location{scheme: u.Scheme, user: u.User, password: u.Password.Reveal()}
	if l.user != "" && l.password == "" {
		return location{}, providerkit.BadURL("user:password@ or :password@ before the host; or nothing")
	}
	for _, key := range slices.Sorted(maps.Keys(u.Query)) {
		if want, found := unsupportedParameters[key]; found {
			return location{}, providerkit.BadOption("URL parameter", key, want)
		}
	}
	if l.query, err = providerkit.SetQuery(o, u.Query); err != nil {
		return location{}, err
	}
	l.path = u.Path
	if l.scheme == "unix" {
		l.path, err = url.PathUnescape(u.Path)
		if u.Host != "" || err != nil || l.path == "" || l.path == "/" {
			return location{}, providerkit.BadURL("unix:///path, or unix://user:password@/path")
		}
		return l, nil
	}
	if !number.MatchString(u.Path) {
		return location{}, providerkit.BadURL("the number of a database as its path, and a password with / written as %2F")
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, _, ok := splitHost(host); !ok {
			return location{}, providerkit.BadURL("host or host:port, several separated by commas, and a password with @ written as %40")
		}
		l.hosts = append(l.hosts, host)
	}
	return l, nil
}

var (
	number   = regexp.MustCompile(`^(/[0-9]{0,5})?$`) // of a database, as a path
	hostname = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// splitHost splits "host", "host:port", or an IPv6 address in brackets.
func splitHost(text string) (host, port string, ok bool) {
	u, err := url.Parse("//" + text)
	if err != nil || u.Host != text {
		return "", "", false
	}
	host, port = u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(cmp.Or(port, "1"), 10, 16); err != nil || n == 0 {
		return "", "", false
	}
	if strings.HasPrefix(text, "[") {
		addr, err := netip.ParseAddr(host)
		return host, port, err == nil && addr.Is6()
	}
	return host, port, hostname.MatchString(host)
}

// addrs returns the hosts with their ports; a socket has one empty address.
func (l location) addrs(port string) []string {
	if len(l.hosts) == 0 {
		return []string{""}
	}
	addrs := make([]string, len(l.hosts))
	for i, text := range l.hosts {
		host, own, _ := splitHost(text)
		addrs[i] = net.JoinHostPort(host, cmp.Or(own, port))
	}
	return addrs
}

// forLibrary returns the URL that go-redis parses. It has no user and password, so that
// errors from go-redis can't quote the password.
func (l location) forLibrary(addr string) string {
	u := url.URL{Scheme: l.scheme, Host: addr, Path: l.path, RawQuery: l.query.Encode()}
	return u.String()
}

// unsupportedParameters lists parameters of go-redis that this provider can't use, and parameters
// that are set elsewhere.
var unsupportedParameters = map[string]string{
	"username":                   "user:password@ before the host",
	"password":                   "user:password@ before the host",
	"master_name":                "master",
	"bootstrap":                  "a call of Provider.Bootstrap, once: in a URL it would also let servers that have lost their data vote",
	"addr":                       "several hosts, separated by commas",
	"context_timeout_enabled":    "no value: it is always on",
	"pipeline_pool_size":         "pool_size",
	"read_only":                  "no value: leases are read from masters",
	"replica_only":               "no value: leases are read from masters",
	"route_by_latency":           "no value: leases are read from masters",
	"route_by_latency_tolerance": "no value: leases are read from masters",
	"route_randomly":             "no value: leases are read from masters",
	"use_disconnected_replicas":  "no value: leases are read from masters",
}
