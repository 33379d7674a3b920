package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over etcd, for leasing.NewManager. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are abstractions.Lister, abstractions.Waiter and
// abstractions.Pinger.
type Provider struct {
	*shell
	driver *driver
}

// Open connects to a cluster, and asks for its version. It reports options that can't work
// as leasing.ErrInvalid, and a member before 3.5.13 as leasing.ErrNotSetUp.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := errors.Join(ctx.Err(), options.complete()); err != nil {
		return nil, err
	}
	p, err := newProvider(ctx, options)
	if err != nil {
		return nil, err
	}
	if err = providerkit.Call(ctx, p.shell, "open", "", p.driver.check); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newProvider(ctx context.Context, o Options) (*Provider, error) {
	client, err := o.Client, error(nil)
	d := &driver{}
	if client == nil {
		if client, err = o.client(ctx); err != nil {
			return nil, opening(err)
		}
		d.owned = client
	}
	d.store = &store{client: client, keep: newKeeper(client), prefix: o.Prefix + "/"}
	d.wakeups.Connect = d.store.connect
	d.Records = providerkit.Records{
		Store: d.store, Key: d.store.key, Leases: d.store, Classify: d.Classify, Retention: o.Retention,
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}, nil
}

// opening is the error of a client that could not be made, mostly since a password is wrong.
func opening(err error) error {
	if errors.Is(err, abstractions.ErrInvalid) {
		return err
	}
	class, is := classOf(err), abstractions.ErrUnavailable
	if class == providerkit.Denied {
		is = abstractions.ErrDenied
	}
	return &abstractions.Error{Op: "open", Provider: "etcd", Err: fmt.Errorf("%w: %w", is, err)}
}

// Sweep forgets all names that have been idle for Options.Retention, and returns how many.
// Releases sweep a little anyway.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}

// driver is what of the provider knows etcd. The rules are Records'.
type driver struct {
	providerkit.Records
	store   *store
	wakeups providerkit.Wakeups
	owned   *clientv3.Client // of our making; nil if it is the user's
}

// Capabilities returns what is documented at the package.
func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:    "etcd",
		MinTTL:      2 * time.Second,             // of members with the default election timeout
		MaxTTL:      9_000_000_000 * time.Second, // lease.MaxLeaseTTL of etcd's module server
		Granularity: time.Second,
		Infinite:    true,
		Clock:       "the monotonic clock of etcd's leader",
		Lateness:    abstractions.Lateness{Fixed: 2 * time.Second},
	}
}

// Before these versions a member that took itself for the leader revoked leases that were
// alive (etcd's changelog, etcd-io/etcd#16822).
const firstSafe = "3.5.13"

// check asks for the version of a member, and whether the prefix may be read.
func (d *driver) check(ctx context.Context) error {
	if err := d.Ping(ctx); err != nil {
		return err
	}
	status, err := pb.NewMaintenanceClient(d.store.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err == nil && older(status.Version, firstSafe) {
		err = fmt.Errorf("%w: etcd %s may end leases early; %s or later is needed", abstractions.ErrNotSetUp, status.Version, firstSafe)
	} else if classOf(err) == providerkit.Denied { // its users may be kept from asking
		err = nil
	}
	return err
}

// older compares versions of three numbers.
func older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(a), len(b)) {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x < y
		}
	}
	return false
}

// Wait registers a waiter: see abstractions.Waiter.
func (d *driver) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return d.wakeups.Wait(ctx, req.Name)
}

// Ping reads what lies under the prefix, which is linearizable: a majority answers.
func (d *driver) Ping(ctx context.Context) error {
	_, err := d.store.client.Get(ctx, d.store.prefix+floors, clientv3.WithKeysOnly())
	return err
}

func (d *driver) Close() error {
	d.wakeups.Close()
	d.store.keep.close()
	if d.owned == nil {
		return nil
	}
	if err := d.owned.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
