package kuberneteslease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

// Options configure a provider. The zero value is for a pod: the API server of its
// cluster, its namespace and its service account.
//
// In JSON, and as the query of a URL, the fields have the names in their tags. Options
// show no secret when they are printed, logged or marshaled.
type Options struct {
	// URL is kubernetes://:token@host:6443/namespace?ca_file=path, or kubernetes:///namespace
	// in a pod. The query may set the fields below that have a tag, except the token.
	URL string `json:"url" option:"secret"`
	// Namespace is the namespace of the leases. Default: the pod's namespace.
	Namespace string `json:"namespace"`
	// Address is the address of the API server, https://host:6443, or http:// for kubectl
	// proxy. Default: from a pod's environment, with CAFile and TokenFile of its service
	// account.
	Address string `json:"address" option:"secret"`
	// CAFile holds the certificates to trust, in PEM. Default: the system's. This file and the files
	// below are read again when they change; unusable contents are ignored.
	CAFile string `json:"ca_file"`
	// Token is a bearer token. TokenFile is the path of a file with a token.
	Token     providerkit.Secret `json:"token"`
	TokenFile string             `json:"token_file"`
	// CertFile and KeyFile are the client's certificate and key, in PEM.
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	// Client sends the requests, and replaces CAFile, CertFile and KeyFile. An example is the client
	// that client-go's rest.HTTPClientFor makes from the configuration in a kubeconfig. Client must not
	// retry writes.
	Client *http.Client `json:"-"`
	// ClockSkew bounds the difference between the clocks of API servers, and of proxies that set
	// Date. A lease that is not renewed blocks its name for that much longer. Default 2 s, at
	// most 1 min.
	ClockSkew time.Duration `json:"clock_skew" option:"default=2s,min=1ms,max=1m"`
	// Retention is the time for which a name is remembered after its last use: see
	// Provider.Sweep. At least a minute, or abstractions.Infinite. Default an hour.
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

// readURL sets the fields that Options.URL contains.
func (o *Options) readURL() error {
	u, err := providerkit.ParseURL(o.URL, scheme)
	if err == nil {
		err = providerkit.SetAll(o, u.Query)
	}
	if err != nil {
		return err
	}
	namespace := strings.TrimPrefix(u.Path, "/")
	if u.User != "" || u.Host != "" && o.Address != "" || namespace != "" && o.Namespace != "" || !u.Password.IsZero() && !o.Token.IsZero() {
		return providerkit.BadURL("kubernetes://:token@host:6443/namespace, with none of these parts in Options")
	}
	if o.URL, o.Namespace = "", o.Namespace+namespace; u.Host != "" {
		o.Address = "https://" + u.Host
	}
	if !u.Password.IsZero() {
		o.Token = u.Password
	}
	return nil
}

// account is the folder of a pod's service account:
// kubernetes.io/docs/tasks/run-application/access-api-from-pod.
var account = "/var/run/secrets/kubernetes.io/serviceaccount"

// inPod sets the fields from a pod's environment.
func (o *Options) inPod() {
	if o.Namespace == "" {
		namespace, _ := os.ReadFile(filepath.Join(account, "namespace")) // complete reports a missing namespace
		o.Namespace = strings.TrimSpace(string(namespace))
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); o.Address == "" && host != "" {
		o.Address = "https://" + net.JoinHostPort(host, cmp.Or(os.Getenv("KUBERNETES_SERVICE_PORT"), "443"))
		if o.Client == nil {
			o.CAFile = cmp.Or(o.CAFile, filepath.Join(account, "ca.crt"))
		}
		if o.Token.IsZero() && o.CertFile == "" {
			o.TokenFile = cmp.Or(o.TokenFile, filepath.Join(account, "token"))
		}
	}
}

// complete sets the defaults and checks the options.
func (o *Options) complete() error {
	if o.URL != "" {
		if err := o.readURL(); err != nil {
			return err
		}
	}
	o.inPod()
	if err := providerkit.Complete(o); err != nil {
		return err
	}
	address, err := url.Parse(o.Address)
	switch {
	case err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" || address.User != nil ||
		address.RawQuery != "" || address.Fragment != "":
		return invalid("Address", providerkit.NotShown, "https://host:6443, without user, password and query; only a pod has a default")
	case len(o.Namespace) > 63 || strings.Contains(o.Namespace, ".") || !subdomain.MatchString(o.Namespace):
		return invalid("Namespace", o.Namespace, "a namespace; only a pod has a default")
	case !o.Token.IsZero() && o.TokenFile != "":
		return invalid("TokenFile", o.TokenFile, "no Token as well")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return invalid("CertFile", o.CertFile, "KeyFile as well")
	case o.Client != nil && (o.CAFile != "" || o.CertFile != ""):
		return invalid("Client", "with others", "no CAFile, CertFile and KeyFile, since the client has its own")
	}
	o.Address = strings.TrimRight(o.Address, "/")
	_, err = o.bearer()()
	return err
}

// bearer returns the source of each request's token. A token may be "".
func (o *Options) bearer() func() (string, error) {
	if o.TokenFile == "" {
		token := o.Token.Reveal()
		err := validToken(token)
		return func() (string, error) { return token, err }
	}
	file := livefile.NewText(o.TokenFile, validToken)
	return func() (string, error) {
		token, err := file.Get()
		if err != nil && !errors.Is(err, abstractions.ErrInvalid) {
			err = fmt.Errorf("%w: TokenFile: %w", abstractions.ErrNotSetUp, err)
		}
		return token, err
	}
}

func validToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("Token", providerkit.NotShown, "a token of visible ASCII characters")
	}
	return nil
}

// client makes a client. It sends nothing.
func (o *Options) client() (*httpjson.Client, error) {
	bearer := o.bearer()
	client := httpjson.New(o.Address, o.Client, func(req *http.Request) error {
		token, err := bearer()
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	})
	client.Service, client.HasMark = "Kubernetes", hasMark
	client.Slots = make(chan struct{}, 16) // the default number of concurrent renewals of a manager
	if transport := client.Transport(); transport != nil {
		// A hanging connection blocks one renewal; with HTTP/2 it would block all.
		transport.ForceAttemptHTTP2, transport.MaxConnsPerHost = false, 32
		return client, client.TLS(o.CAFile, o.CertFile, o.KeyFile)
	}
	return client, nil
}

func invalid(field string, value any, want string) error {
	return &abstractions.InvalidError{Field: "Options." + field, Value: value, Want: want}
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns the opener of URLs that begin with kubernetes://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, scheme) }

const scheme = "kubernetes"
