package kuberneteslease

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Kubernetes, for leasing.NewManager. Make one with Open
// or OpenURL. It is safe for concurrent use.
//
// It also implements abstractions.Lister and abstractions.Pinger.
type Provider struct {
	*shell
	driver *driver
}

// Open makes a provider, and reads one lease. It reports invalid options as
// leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := errors.Join(ctx.Err(), options.complete()); err != nil {
		return nil, err
	}
	p, err := newProvider(options)
	if err != nil {
		return nil, err
	}
	if err := providerkit.Call(ctx, p.shell, "open", "", p.driver.Ping); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newProvider(o Options) (*Provider, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	d := &driver{store: &store{client, "/apis/" + apiVersion + "/namespaces/" + o.Namespace + "/leases", o.Namespace}}
	d.Records = cas.Records{
		Store: d.store, Key: encode, FloorKey: floorName, Classify: d.Classify, Retention: o.Retention, ManualSweep: true,
		Expiry: &cas.Expiry{Resolution: time.Second, Skew: o.ClockSkew}, // the resolution and skew of managedFields[].time and Date
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}, nil
}

// Sweep forgets the names that have been free for longer than Options.Retention, and returns
// their number. Nothing is swept automatically.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}

// driver is the part of the provider that depends on Kubernetes. The embedded Records implements the rules of leases.
type driver struct {
	cas.Records
	store *store
}

// Capabilities returns the limits of the provider.
func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       "kubernetes",
		MinTTL:         5 * time.Second, // a few times the sum of the skew and the error of whole seconds
		MaxTTL:         365 * 24 * time.Hour,
		Granularity:    time.Millisecond,
		Infinite:       true,
		Clock:          "the API server's clock, or the monotonic clock of the process that asks",
		Lateness:       d.Expiry.Lateness(),
		RemainingKnown: true,
	}
}

// Ping reads a lease that does not exist. The server refuses this read if the account's role names
// individual leases (resourceNames). In that case Ping succeeds if the account's rules allow it to read
// some leases.
func (d *driver) Ping(ctx context.Context) error {
	_, err := d.store.Get(ctx, encode("~ping"))
	if isAboutLease(err, http.StatusForbidden) {
		if may, failed := d.store.mayReadSome(ctx); may && failed == nil {
			return nil
		}
	}
	return err
}

func (d *driver) Close() error {
	d.store.client.Close()
	return nil
}

// statuses are the codes of kubernetes.io/docs/reference/kubernetes-api/common-definitions/status, and of
// k8s.io/apimachinery@v0.36.3/pkg/apis/meta/v1/types.go, StatusReason. A request may have been applied after
// a 500 or a 504.
var statuses = httpjson.Statuses{
	http.StatusBadRequest:            {Class: providerkit.NotSetUp},
	http.StatusUnauthorized:          {Class: providerkit.Denied, Advice: "the token or certificate has expired, or belongs to no account of the cluster"},
	http.StatusForbidden:             {Class: providerkit.Denied, Advice: "the account needs the verbs get, list, create, update and delete for leases.coordination.k8s.io in the namespace"},
	http.StatusNotFound:              {Class: providerkit.NotSetUp},
	http.StatusMethodNotAllowed:      {Class: providerkit.NotSetUp},
	http.StatusRequestEntityTooLarge: {Class: providerkit.NotSetUp},
	http.StatusUnprocessableEntity:   {Class: providerkit.NotSetUp},
	http.StatusTooManyRequests:       {Class: providerkit.Refused},
}

// Classify returns the meaning of an error.
func (*driver) Classify(err error) providerkit.Meaning {
	m := statuses.Classify(err)
	var refusal *httpjson.StatusError
	if errors.As(err, &refusal) && refusal.Status == http.StatusForbidden && !bytes.Contains(refusal.Body, []byte(" cannot ")) {
		m.Advice = "" // the refusal comes from a quota or a webhook, and not from RBAC
	}
	return m
}
