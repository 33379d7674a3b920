package redislease

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// Mode says how Redis is deployed.
type Mode string

// The modes.
const (
	Single   Mode = "single"   // one server
	Sentinel Mode = "sentinel" // the master that the sentinels report
	Cluster  Mode = "cluster"  // a Redis Cluster: the master of a name's slot
	Redlock  Mode = "redlock"  // a majority of independent servers
)

// The defaults of Options.Prefix and Options.MaxTTL.
const (
	DefaultPrefix = "leasing"
	DefaultMaxTTL = time.Minute
)

// Options configure a provider. Exactly one of URL, Client and Clients selects
// the Redis deployment.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them or marshalling them to JSON shows neither URL nor password.
type Options struct {
	// URL is one of
	//
	//	redis://user:password@host:6379/0
	//	redis://host1:6379,host2:6379,host3:6379?mode=cluster
	//	redis://host1:26379,host2:26379,host3:26379/0?master=name
	//	redis://host1:6379,host2:6379,host3:6379/0?mode=redlock
	//	unix://user:password@/path/to/redis.sock?db=0
	//
	// With rediss instead of redis, connections use TLS. User and password apply to
	// all hosts; the user may be left out. Escape characters that are special in
	// URLs: %40 for @, %2F for / and so on. The path is the database number. The
	// default port is 6379, or 26379 for a sentinel.
	//
	// The query may set the tagged fields below except SentinelPassword. It may also
	// set go-redis' own parameters, except those that read from replicas: for example
	// pool_size, dial_timeout (default 3s here) or read_timeout (default 5s; like the
	// context, it bounds the wait for each answer). See redis.ParseURL,
	// redis.ParseClusterURL and redis.ParseFailoverURL.
	URL string `json:"url" option:"secret"`
	// Client is your own client: a *redis.Client (a failover client, too) or a
	// *redis.ClusterClient. It stays open when the provider closes. With
	// ContextTimeoutEnabled, DialerRetries 1 and MaxRetries -1, and HeedsContext below, it
	// behaves like the clients that Open makes. Without them a call still ends with its
	// context, but a connection to a server that hangs is kept for ReadTimeout, and Close
	// waits for that connection. Retries by the client do no harm.
	Client redis.UniversalClient `json:"-"`
	// Clients are your own clients for Redlock: an odd number, 3 or more, each
	// a *redis.Client of a different server. They stay open when the provider
	// closes.
	Clients []redis.UniversalClient `json:"-"`

	// HeedsContext says that your own code in the clients (hooks, dialer, limiter, credentials)
	// returns soon after a call's context has ended. A call that does not share a round trip is
	// then sent on its caller's goroutine, and takes half the time on a nearby server. The clients
	// also need ContextTimeoutEnabled. With a URL and no Credentials the option has no effect,
	// since none of your code runs.
	HeedsContext bool `json:"-"`

	// Mode is the deployment that URL leads to. Default: Sentinel if Master is
	// set, otherwise Single, which needs a URL with one host. Client and
	// Clients imply their mode.
	Mode Mode `json:"mode"`
	// Master is the sentinels' name for the master.
	Master string `json:"master"`
	// SentinelUsername and SentinelPassword authenticate to sentinels that
	// require authentication. User and password in the URL are for the servers.
	SentinelUsername string `json:"sentinel_username"`
	SentinelPassword string `json:"sentinel_password" option:"secret"`
	// Credentials authenticate connections, for a URL without user and password: see module
	// auth/redisauth for Microsoft Entra ID tokens. They are not used for sentinels, and not closed
	// with the provider. For your own client set them in its options. In mode Sentinel they are
	// fetched for each new connection, and a live connection is not authenticated a second time.
	Credentials auth.StreamingCredentialsProvider `json:"-"`
	// TLS replaces Go's defaults for a rediss URL, for example to trust your own certificate
	// authority or to present a client certificate. Unless ServerName is set, a server's
	// certificate must match the URL's host, or the address that is dialled if there are several
	// hosts or the mode is Sentinel.
	TLS *tls.Config `json:"-"`

	// Prefix is the prefix of all keys and channels: see "How it works".
	// Processes exclude each other only under the same prefix. It is 1 to 100
	// bytes of UTF-8 without braces and control characters. Default
	// DefaultPrefix.
	Prefix string `json:"prefix" option:"default=leasing,maxlen=100"`
	// Retention is the time for which a name is remembered after its last lease
	// has ended: 1 ms to 10 years. A request that is delayed for longer may take
	// effect although its claim was released. Default 1 h; leasing.Infinite,
	// "forever", never forgets.
	Retention time.Duration `json:"retention" option:"retention"`
	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`

	// MaxTTL is Redlock's longest TTL. A server that is new, or has lost its data,
	// casts no vote for this time: see [Provider.Bootstrap]. It must be
	// the same in all processes. At least 200 ms. Default DefaultMaxTTL.
	MaxTTL time.Duration `json:"max_ttl" option:"min=200ms,max=876000h"`
	// NodeTimeout bounds Redlock's wait for a single server: 1 ms or
	// more, and never more than half of the TTL. Default: a tenth of the TTL,
	// between 100 ms and 1 s, and at most a third of the TTL.
	NodeTimeout time.Duration `json:"node_timeout" option:"min=1ms"`
}

// Format prints the options without secrets, for all verbs.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON writes only the fields that Format prints, so that no secret gets into a file.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options. Unknown fields are an error, and so are durations that
// are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }
