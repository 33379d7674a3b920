package redislease

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
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

// The defaults of Options.Prefix and Options.MaxTTL.
const (
	DefaultPrefix = "leasing"
	DefaultMaxTTL = time.Minute
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
	URL string `json:"url" option:"secret"`
	// Client is a client of your own: *redis.Client, also of sentinels, or
	// *redis.ClusterClient. It stays open when the provider closes. One with
	// ContextTimeoutEnabled, DialerRetries 1 and MaxRetries -1 behaves, with HeedsContext,
	// as those that Open makes. Without them a call still ends with its context, but a
	// connection to a server that hangs is kept for ReadTimeout, and Close waits
	// for it. Requests that the client retries do no harm.
	Client redis.UniversalClient `json:"-"`
	// Clients are Redlock's, 3 or more and an odd number of them, each a
	// *redis.Client of another server. They stay open when the provider closes.
	Clients []redis.UniversalClient `json:"-"`

	// HeedsContext says that code of yours which clients run in a call (their hooks, dialer, limiter
	// and credentials) returns soon after the call's context has ended. A call that is
	// made alone is then sent on its caller's goroutine, which takes half the time on a
	// server nearby. Clients need ContextTimeoutEnabled for it. With a URL and no Credentials it
	// makes no difference: no code of yours runs there.
	HeedsContext bool `json:"-"`

	// Mode is what is behind the URL. Default: Sentinel if Master is set,
	// else Single, which needs a URL with one host. With Client and Clients it
	// follows from them.
	Mode Mode `json:"mode"`
	// Master is what sentinels call the master.
	Master string `json:"master"`
	// SentinelUsername and SentinelPassword are for the sentinels themselves,
	// if they ask for them. The URL's are the servers'.
	SentinelUsername string `json:"sentinel_username"`
	SentinelPassword string `json:"sentinel_password" option:"secret"`
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
	Prefix string `json:"prefix" option:"default=leasing,maxlen=100"`
	// Retention is how long a name is remembered after its last lease has
	// ended. A request that was delayed for longer may land after its own
	// clean-up. Default 1 h; abstractions.Infinite never forgets.
	Retention time.Duration `json:"retention" option:"retention"`
	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`

	// MaxTTL is Redlock's longest TTL, and for how long a server that has lost
	// its data, or is new, casts no vote: see [Provider.Bootstrap]. It has to be
	// the same in all processes. Default DefaultMaxTTL.
	MaxTTL time.Duration `json:"max_ttl" option:"min=200ms,max=876000h"`
	// NodeTimeout is how long Redlock waits for a single server. Default: a
	// part of the TTL.
	NodeTimeout time.Duration `json:"node_timeout" option:"min=1ms"`
}

// Format shows what is no secret, for all verbs.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON shows what Format does: options that hold secrets are not for writing down.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options. Fields it doesn't know are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }
