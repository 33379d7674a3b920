package etcdlease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Options configure a provider, which needs either a Client, or Endpoints, here or in the URL. In JSON, and as the query of
// a URL, the fields have the names in their tags. Printing options, logging them, and writing them as JSON show no secret.
type Options struct {
	// URL is etcd://user:password@host1:2379,host2:2379,host3:2379/prefix?tls=true. In a password, write %2F for / and %40
	// for @. The query may set the fields below that have a tag, except secrets.
	URL string `json:"url" option:"secret"`
	// Prefix is the first part of all keys, before a slash. Processes exclude each other only if they use the same
	// Prefix. Default "leases".
	Prefix string `json:"prefix" option:"default=leases,path,maxlen=500"`
	// Client is your own client, which replaces the nine fields that follow. Close leaves it open. Its KV and Watcher may be
	// from package namespace.
	Client *clientv3.Client `json:"-"`
	// Endpoints are addresses of members, as host:port. The port may be omitted.
	Endpoints []string `json:"endpoints"`
	// Username and Password are for clusters with authentication.
	Username string             `json:"username"`
	Password providerkit.Secret `json:"password"`
	// Secret, in place of Password, returns a password that may change. Each request for a token calls it, from several
	// goroutines at a time. An error counts as a failure of the credentials.
	Secret func(ctx context.Context) (string, error) `json:"-"`
	// SecretFile is the path of a file with a password. Each request for a token uses the newest valid password of the file.
	SecretFile string `json:"secret_file"`
	// TLS encrypts connections. CAFile holds the certificates to trust, in PEM; default: the system's. CertFile and KeyFile are
	// the client's certificate and key. Setting any of these files also sets TLS. New connections use the newest valid contents
	// of the files.
	TLS      bool   `json:"tls"`
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	// Retention is the time for which a name is remembered after its last use, by the processes' clocks. An upper bound
	// of its token is kept forever. At least 1 min. Default 1 h; with leasing.Infinite, "forever", no name is
	// forgotten.
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	// Timeout bounds a call whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
}

// Format prints the options without their secrets.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON returns the text of Format as a JSON string: options with secrets can't be saved as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// complete sets the fields of the URL and the defaults, and checks the options.
func (o *Options) complete() error {
	if o.URL != "" {
		u, prefix, err := providerkit.ReadURL(o, o.URL, urlSchemes...)
		if err != nil {
			return err
		}
		named := u.User != "" || !u.Password.IsZero()
		if u.Host == "" || len(o.Endpoints) > 0 || prefix != "" && o.Prefix != "" || named && o.Username != "" {
			return providerkit.BadURL("etcd://user:password@host1,host2,host3/prefix, with none of these parts in Options")
		}
		if named {
			o.Username, o.Password = u.User, u.Password
		}
		o.URL, o.Endpoints, o.Prefix = "", strings.Split(u.Host, ","), o.Prefix+prefix
	}
	if err := providerkit.Complete(o); err != nil {
		return err
	}
	passwords := 0
	for _, set := range []bool{!o.Password.IsZero(), o.Secret != nil, o.SecretFile != ""} {
		if set {
			passwords++
		}
	}
	files := o.CAFile != "" || o.CertFile != "" || o.KeyFile != ""
	switch {
	case (o.Username == "") != (passwords == 0):
		return providerkit.BadOption("Password", providerkit.NotShown, "Username as well")
	case passwords > 1:
		return providerkit.BadOption("Password", providerkit.NotShown, "one of Password, Secret and SecretFile")
	case o.Client != nil && (len(o.Endpoints) > 0 || o.Username != "" || o.TLS || files):
		return providerkit.BadOption("Client", "with others", "no Endpoints, Username, Password, TLS and files, which the client has")
	case o.Client == nil && len(o.Endpoints) == 0:
		return providerkit.BadOption("Endpoints", "", "host:port of each member")
	}
	o.TLS = o.TLS || files
	o.Endpoints = slices.Clone(o.Endpoints)
	for i, endpoint := range o.Endpoints {
		if o.Endpoints[i] = providerkit.HostPort(endpoint, "2379"); o.Endpoints[i] == "" {
			return providerkit.BadOption("Endpoints", providerkit.NotShown, "host:port of each member")
		}
	}
	return nil
}

// client makes a client. With a user, the client requests a token; otherwise it sends nothing.
func (o *Options) client() (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: o.Endpoints, Username: o.Username, Password: o.Password.Reveal(), Logger: zap.NewNop(),
		// A hanging member gets no calls after 13 s. Servers refuse pings that come more often than
		// every 5 s, or without a call in flight.
		DialTimeout: o.Timeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		MaxUnaryRetries: 2, // one retry with a new token
	}
	if o.Secret != nil || o.SecretFile != "" {
		newest, err := o.newestPassword()
		if err != nil {
			return nil, err
		}
		config.Password, config.DialOptions = "set by newestPassword", append(config.DialOptions, newest)
	}
	if o.TLS {
		live, err := newLiveTLS(o)
		if err != nil {
			return nil, err
		}
		config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(live)) // the last of these options counts
	}
	return clientv3.New(config)
}

// newestPassword sets the password of each request for a token. The client itself keeps its first password.
func (o *Options) newestPassword() (grpc.DialOption, error) {
	source, err := livefile.NewSource(o.Secret, o.SecretFile, func(string) error { return nil })
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if request, ok := req.(*pb.AuthenticateRequest); ok {
			password, err := source(ctx)
			if err != nil {
				return err
			}
			request.Password = password
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}), err
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, url string) (*Provider, error) { return Open(ctx, Options{URL: url}) }

// Opener returns the opener of URLs that begin with etcd://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"etcd"}
