package consullease

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Consul, for leasing.NewManager. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// It also implements abstractions.Lister and abstractions.Pinger.
type Provider struct {
	*shell
	driver *driver
}

// Open makes a provider, and reads one key. It reports invalid options as leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := errors.Join(ctx.Err(), options.complete()); err != nil {
		return nil, err
	}
	tokens, err := options.tokens()
	if err != nil {
		return nil, err
	}
	p := newProvider(options, tokens)
	if err := providerkit.Call(ctx, p.shell, "open", "", p.driver.Ping); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// connections limits the number of connections of a process. An agent refuses more than 200 from
// one address: limits.http_max_conns_per_client, in
// developer.hashicorp.com/consul/docs/reference/agent/configuration-file/general.
const connections = 32

func newProvider(o Options, tokens livefile.Source) *Provider {
	s := &store{
		client: httpjson.New(o.Address, o.Client, func(req *http.Request) error {
			token, err := tokens(req.Context())
			if token != "" {
				req.Header.Set("X-Consul-Token", token)
			}
			return err
		}),
		naming: cas.Naming{Prefix: o.Prefix + "/", Max: maxKey}, common: url.Values{},
	}
	s.client.Service, s.client.HasMark = "Consul", hasMark
	if transport := s.client.Transport(); transport != nil {
		transport.MaxConnsPerHost = connections
	}
	if o.Datacenter != "" {
		s.common.Set("dc", o.Datacenter)
	}
	d := &driver{store: s}
	d.Records = cas.Records{
		Store: s, Key: s.naming.Encode, FloorKey: s.naming.Floor(), Classify: d.Classify, Retention: o.Retention, ManualSweep: true,
		Expiry: &cas.Expiry{Resolution: time.Second}, // the resolution of the agent's time, which only tokens use
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}
}

// Sweep deletes the names that have been free for longer than Options.Retention, and returns
// their number. An expired lease that no claim has acquired since counts as held. Nothing is
// swept automatically: call Sweep regularly if names are used only once.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}

// maxKey is the greatest length of a key, without the prefix.
const maxKey = 200

// driver is the part of the provider that depends on Consul. The embedded Records implements the rules of leases.
type driver struct {
	cas.Records
	store *store
}

// Capabilities returns the limits that the package documentation states.
func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:    "consul",
		MinTTL:      time.Second,
		MaxTTL:      365 * 24 * time.Hour,
		Granularity: time.Millisecond,
		Infinite:    true,
		Clock:       "the monotonic clock of the process that asks",
		Lateness:    abstractions.Lateness{Fixed: time.Second, PerTTL: 1.01, Watched: true},
	}
}

func (d *driver) Close() error {
	d.store.client.Close()
	return nil
}

// statuses are the codes of developer.hashicorp.com/consul/api-docs/api-structure#http-response-codes. A
// 500 comes from a server without a leader, or from a server that could not forward the request.
var statuses = httpjson.Statuses{
	http.StatusBadRequest:            {Class: providerkit.NotSetUp},
	http.StatusUnauthorized:          {Class: providerkit.Denied}, // ACLs are not enabled
	http.StatusForbidden:             {Class: providerkit.Denied, Advice: "the ACL token needs the policy write for the prefix"},
	http.StatusNotFound:              {Class: providerkit.NotSetUp},
	http.StatusMethodNotAllowed:      {Class: providerkit.NotSetUp},
	http.StatusRequestEntityTooLarge: {Class: providerkit.NotSetUp, Advice: "limits.kv_max_value_size and txn_max_req_len bound a record"},
	http.StatusUnprocessableEntity:   {Class: providerkit.NotSetUp},
	http.StatusTooManyRequests:       {Class: providerkit.Refused},
}

// Classify returns the meaning of an error.
func (*driver) Classify(err error) providerkit.Meaning {
	m := statuses.Classify(err)
	var refusal *httpjson.StatusError
	switch {
	case errors.Is(err, errRefused):
		m = statuses[http.StatusForbidden]
	case m.Class == providerkit.Denied && errors.As(err, &refusal) && bytes.Contains(refusal.Body, []byte("ACL not found")): // ErrNotFound in github.com/hashicorp/consul/acl
		m.Advice = "the ACL token was deleted or has expired, or is unknown in the datacenter"
	}
	return m
}
