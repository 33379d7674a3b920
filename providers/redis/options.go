package redislease

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// Mode names a way to run Redis.
type Mode string

// The modes.
const (
	Single   Mode = "single"   // one server
	Sentinel Mode = "sentinel" // the master that sentinels name
	Cluster  Mode = "cluster"  // a Redis Cluster: the master of a name's slot
	Redlock  Mode = "redlock"  // a majority of servers that know nothing of each other
)

// Forever as a retention never forgets.
const Forever = abstractions.Infinite

// The defaults of Options.
const (
	DefaultPrefix    = "leasing"
	DefaultRetention = time.Hour
	DefaultTimeout   = 10 * time.Second
	DefaultMaxTTL    = time.Minute // of Redlock
)

// Options configure a provider. Exactly one of URL, Client and Clients says
// where Redis is.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them, and writing them as JSON shows neither URL nor password.
type Options struct {
	// URL is one of
	//
	//	redis://user:password@host:6379/0
	//	redis://host1:6379,host2:6379,host3:6379?mode=cluster
	//	redis://host1:26379,host2:26379,host3:26379/0?master=name
	//	redis://host1:6379,host2:6379,host3:6379/0?mode=redlock
	//	unix://user:password@/path/to/redis.sock?db=0
	//
	// or begins with rediss, for TLS. User and password are the same for all
	// hosts; the user may be left out. What has a meaning in URLs is written
	// as %40 for @, %2F for / and so on. The path is the number of the
	// database. Ports are 6379, and a sentinel's 26379, unless they are given.
	//
	// The query may set the fields below that have a tag, but for
	// SentinelPassword, and go-redis' own parameters, such as pool_size,
	// dial_timeout (here 3s by default) and read_timeout (5s, which bounds each
	// answer beside the context): see redis.ParseURL, redis.ParseClusterURL and
	// redis.ParseFailoverURL. Not those that read from replicas.
	URL string `json:"url"`
	// Client is a client of your own: *redis.Client, also of sentinels, or
	// *redis.ClusterClient. It stays open when the provider closes. One with
	// ContextTimeoutEnabled, DialerRetries 1 and MaxRetries -1 behaves as those
	// that Open makes. Without them a call still ends with its context, but a
	// connection to a server that hangs is kept for ReadTimeout, and Close waits
	// for it. Requests that the client retries do no harm.
	Client redis.UniversalClient `json:"-"`
	// Clients are Redlock's, 3 or more and an odd number of them, each a
	// *redis.Client of another server. They stay open when the provider closes.
	Clients []redis.UniversalClient `json:"-"`

	// Mode is what is behind the URL. Default: Sentinel if Master is set,
	// else Single, which needs a URL with one host. With Client and Clients it
	// follows from them.
	Mode Mode `json:"mode"`
	// Master is what sentinels call the master.
	Master string `json:"master"`
	// SentinelUsername and SentinelPassword are for the sentinels themselves,
	// if they ask for them. The URL's are the servers'.
	SentinelUsername string `json:"sentinel_username"`
	SentinelPassword string `json:"sentinel_password"`
	// Credentials sign connections in, for a URL without user and password: see
	// module auth/redisauth for tokens of Microsoft Entra ID. Sentinels have
	// their own. They are not closed with the provider. A client of your own has
	// them in its options.
	Credentials auth.StreamingCredentialsProvider `json:"-"`
	// TLS is for a URL that begins with rediss, in place of Go's defaults: to
	// trust an authority of your own, to show a certificate. Unless it has a
	// ServerName, servers have to prove to be the URL's host where it has one,
	// and the address they are reached at where it has several, and for
	// Sentinel.
	TLS *tls.Config `json:"-"`

	// Prefix begins the names of all keys and channels: see Provider. Those who
	// are to exclude each other use the same. 1 to 100 bytes of UTF-8 without
	// braces and control characters. Default DefaultPrefix.
	Prefix string `json:"prefix"`
	// Retention is how long a name is remembered after its last lease has
	// ended. A request that was delayed for longer may land after its own
	// clean-up. Default DefaultRetention; Forever never forgets.
	Retention time.Duration `json:"retention"`
	// Timeout bounds a request whose context has no deadline. Default DefaultTimeout.
	Timeout time.Duration `json:"timeout"`

	// MaxTTL is Redlock's longest TTL, and for how long a server that has lost
	// its data, or is new, casts no vote: see [Provider.Bootstrap]. It has to be the same in all processes. Default
	// DefaultMaxTTL.
	MaxTTL time.Duration `json:"max_ttl"`
	// NodeTimeout is how long Redlock waits for a single server. Default: a
	// part of the TTL.
	NodeTimeout time.Duration `json:"node_timeout"`
}

// notShown stands for what may hold a password.
const notShown = "(not shown)"

// String shows what is no secret.
func (o Options) String() string {
	source, err := o.source()
	if err != nil {
		source = "no source"
	}
	return fmt.Sprintf("redislease.Options{%s, Mode: %q, Prefix: %q, Retention: %v}", source, string(o.Mode), o.Prefix, o.Retention)
}

// GoString is String.
func (o Options) GoString() string { return o.String() }

// LogValue is String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON is String: options that hold secrets are not for writing down.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

// UnmarshalJSON reads options. Fields it doesn't know are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error {
	type plain Options // without this method
	fields := struct {
		*plain
		Retention   *duration `json:"retention"`
		Timeout     *duration `json:"timeout"`
		MaxTTL      *duration `json:"max_ttl"`
		NodeTimeout *duration `json:"node_timeout"`
	}{(*plain)(o), (*duration)(&o.Retention), (*duration)(&o.Timeout), (*duration)(&o.MaxTTL), (*duration)(&o.NodeTimeout)}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		// The error names a field or an offset, never a value of another field.
		return &abstractions.InvalidError{Field: "Options", Value: notShown, Want: "the JSON of redislease.Options: " + err.Error()}
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

// source returns the field that says where Redis is.
func (o Options) source() (string, error) {
	var given []string
	for _, s := range []struct {
		field string
		set   bool
	}{{"URL", o.URL != ""}, {"Client", o.Client != nil}, {"Clients", o.Clients != nil}} {
		if s.set {
			given = append(given, s.field)
		}
	}
	if len(given) == 1 {
		return given[0], nil
	}
	value := "with none"
	if len(given) > 0 {
		value = "with " + strings.Join(given, " and ")
	}
	return "", &abstractions.InvalidError{Field: "Options", Value: value, Want: "exactly one of URL, Client and Clients"}
}
