package redislease

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/redis/go-redis/v9"
)

// complete validates the options, fills in the defaults, and returns the location that
// the URL describes.
func (o *Options) complete() (l location, err error) {
	field, err := providerkit.ExactlyOne(o, "URL", "Client", "Clients")
	if err != nil {
		return l, err
	}
	if field == "URL" {
		if l, err = o.locate(); err == nil {
			o.Mode, err = o.modeOfURL(l)
		}
	} else {
		o.Mode, err = o.modeOfClients(field)
	}
	if err != nil {
		return l, err
	}
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
			return l, providerkit.BadOption(f.field, f.value, fmt.Sprintf("no value, since it is for mode %s and the mode is %s", f.mode, o.Mode))
		}
	}
	if err = providerkit.Complete(o); err != nil {
		return l, err
	}
	if o.Mode == Redlock {
		o.MaxTTL = cmp.Or(o.MaxTTL, DefaultMaxTTL)
	}
	if most := o.MaxTTL / 2; o.NodeTimeout > most {
		return l, providerkit.BadOption("NodeTimeout", o.NodeTimeout, fmt.Sprintf("%v to %v; or 0 for the default", time.Millisecond, most))
	}
	// Braces would change the hash tag.
	if strings.ContainsAny(o.Prefix, "{}") || strings.ContainsFunc(o.Prefix, unicode.IsControl) || !utf8.ValidString(o.Prefix) {
		return l, providerkit.BadOption("Prefix", o.Prefix, "UTF-8 without braces and control characters")
	}
	return l, nil
}

// modeOfURL returns the mode of the deployment behind the URL.
func (o *Options) modeOfURL(l location) (Mode, error) {
	if o.Credentials != nil && (l.user != "" || l.password != "") {
		return "", providerkit.BadOption("Credentials", providerkit.NotShown, "no value with a user or password in the URL")
	}
	if o.TLS != nil && (l.scheme != "rediss" || l.query.Has("skip_verify")) {
		return "", providerkit.BadOption("TLS", providerkit.NotShown, "a URL that begins with rediss://, and without skip_verify")
	}
	mode := o.Mode
	switch {
	case mode == "" && o.Master != "":
		mode = Sentinel
	case mode == "" && len(l.hosts) <= 1:
		mode = Single
	}
	if len(l.hosts) == 0 && mode != Single {
		return "", providerkit.BadOption("Mode", string(mode), "single for a unix socket")
	}
	switch mode {
	case Single:
		if len(l.hosts) > 1 {
			return "", providerkit.BadOption("Mode", string(mode), "one host in the URL, or cluster, sentinel or redlock")
		}
	case Cluster:
		if number := l.path; number != "" && number != "/" && number != "/0" {
			return "", providerkit.BadOption("URL", providerkit.NotShown, "database 0: a Cluster has no other")
		}
	case Sentinel:
		if o.Master == "" {
			return "", providerkit.BadOption("Master", o.Master, "the master's name in the sentinels")
		}
	case Redlock:
		return mode, independent("Options.URL", l.addrs(redisPort))
	default:
		return "", providerkit.BadOption("Mode", string(mode), "single, cluster, sentinel or redlock; single has one host")
	}
	return mode, nil
}

// modeOfClients returns the mode of the application's own clients. It accepts the kinds of
// clients that send all requests for a name to one master. It refuses a Ring, which moves
// names to another server when one does not answer. A Redlock accepts no sentinel client: a
// replica that takes over may have lost writes, but would still vote.
func (o *Options) modeOfClients(field string) (mode Mode, err error) {
	for set, unwanted := range map[string]bool{"TLS": o.TLS != nil, "Credentials": o.Credentials != nil} {
		if unwanted {
			return "", providerkit.BadOption(set, providerkit.NotShown, "no value: a client has its own")
		}
	}
	mode = Redlock
	addrs := make([]string, len(o.Clients))
	for i, client := range o.clients() {
		at, want := "Client", "a *redis.Client or *redis.ClusterClient"
		if field == "Clients" {
			at, want = fmt.Sprintf("Clients[%d]", i), "a *redis.Client of one server"
		}
		var timeoutEnabled bool
		switch c := client.(type) {
		case *redis.Client:
			if c == nil {
				return "", providerkit.BadOption(at, "nil", want)
			}
			timeoutEnabled = c.Options().ContextTimeoutEnabled
			if field == "Client" {
				mode = Single
			} else if addrs[i] = c.Options().Addr; addrs[i] == failoverAddr {
				return "", providerkit.BadOption(at, "a client of sentinels", want+": a replica that takes over would vote without some of the leases")
			}
		case *redis.ClusterClient:
			if c == nil || field == "Clients" {
				return "", providerkit.BadOption(at, fmt.Sprintf("%T", client), want)
			}
			mode, timeoutEnabled = Cluster, c.Options().ContextTimeoutEnabled
		default:
			return "", providerkit.BadOption(at, fmt.Sprintf("%T", client), want)
		}
		if o.HeedsContext && !timeoutEnabled {
			return "", providerkit.BadOption("HeedsContext", true, "a client with ContextTimeoutEnabled")
		}
	}
	if mode == Redlock {
		if err := independent("Options.Clients", addrs); err != nil {
			return "", err
		}
	}
	if o.Mode == "" || o.Mode == mode || o.Mode == Sentinel && mode == Single {
		return mode, nil
	}
	return "", providerkit.BadOption("Mode", string(o.Mode), fmt.Sprintf("%s, the mode of Options.%s; or no value", mode, field))
}

// failoverAddr is the address in the options of a client from redis.NewFailoverClient.
const failoverAddr = "FailoverClient"

// clients returns the application's own clients.
func (o *Options) clients() []redis.UniversalClient {
	if o.Client != nil {
		return []redis.UniversalClient{o.Client}
	}
	return o.Clients
}

// independent refuses fewer than 3 servers, an even number of servers (which tolerates no more
// failures than one server fewer), and a server that would vote twice.
func independent(field string, addrs []string) error {
	if n := len(addrs); n < 3 || n%2 == 0 {
		return &abstractions.InvalidError{
			Field: field, Value: fmt.Sprintf("with %d", n),
			Want: "3, 5 or another odd number of servers for Redlock; for one server use mode single, which is safer",
		}
	}
	for i, addr := range addrs {
		if slices.Contains(addrs[:i], addr) {
			return &abstractions.InvalidError{Field: field, Value: addr, Want: "each server once"}
		}
	}
	return nil
}
