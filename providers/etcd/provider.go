package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over etcd, for leasing.NewManager. Make one with Open or OpenURL. It is safe for concurrent
// use. It also implements abstractions.BatchRenewer, Lister, Waiter and Pinger.
type Provider struct {
	*shell
	driver *driver
}

// Open connects to a cluster, and requests its version. It reports invalid options as leasing.ErrInvalid, and a member
// before 3.5.13 as leasing.ErrNotSetUp.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := errors.Join(ctx.Err(), options.complete()); err != nil {
		return nil, err
	}
	p := newProvider(options)
	if err := providerkit.Call(ctx, p.shell, "open", "", p.driver.open); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newProvider(o Options) *Provider {
	s := &store{prefix: o.Prefix + "/", freeLeases: make(chan keyState, 64)}
	d := &driver{store: s, options: o, wakeups: wakeup.Listener{Connect: s.connect}}
	d.Records = cas.Records{Store: s, Key: s.key, Leases: s, Classify: d.Classify, Retention: o.Retention}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}
}

// Sweep forgets all names that have been idle for Options.Retention, and returns their number. Releases also sweep a few names.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}

type driver struct {
	cas.Records // the rules of leases
	store       *store
	options     Options
	wakeups     wakeup.Listener
}

func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider: "etcd", Clock: "the monotonic clock of etcd's leader", Granularity: time.Second, Infinite: true,
		MinTTL:   2 * time.Second,             // for members with the default election timeout
		MaxTTL:   9_000_000_000 * time.Second, // lease.MaxLeaseTTL in etcd's module server
		Lateness: abstractions.Lateness{Fixed: 2 * time.Second},
	}
}

// open connects, requests a member's version, and checks that the prefix can be read. Before 3.5.13, a member that
// wrongly took itself for the leader revoked live leases (etcd's changelog, etcd-io/etcd#16822).
func (d *driver) open(ctx context.Context) error {
	if err := d.connect(); err != nil {
		return err
	}
	member, err := pb.NewMaintenanceClient(d.store.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	switch {
	case d.Classify(err).Class == providerkit.Denied: // the user may lack permission to read the version
		return d.Ping(ctx)
	case err != nil:
		return err
	}
	var major, minor, patch int
	if _, err = fmt.Sscanf(member.Version, "%d.%d.%d", &major, &minor, &patch); err != nil || 1e6*major+1e3*minor+patch < 3_005_013 {
		return fmt.Errorf("%w: etcd %s may end leases early; 3.5.13 or later is needed", abstractions.ErrNotSetUp, member.Version)
	}
	return d.Ping(ctx)
}

func (d *driver) connect() (err error) {
	if d.store.client = d.options.Client; d.store.client == nil {
		d.store.client, err = d.options.client()
	}
	if err == nil {
		d.store.keeper = newKeeper(d.store.client)
	}
	return err
}

// RenewBatch renews many claims. Claims with a known state share requests: see keeper.
func (d *driver) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	var all providerkit.Group
	for i, req := range reqs {
		all.Go(func() (err error) {
			results[i].Grant, err = d.Renew(ctx, req)
			return err
		}, func(err error) { results[i].Err = err })
	}
	all.Wait()
	return results, nil
}

func (d *driver) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return d.wakeups.Wait(ctx, req.Name)
}

func (d *driver) Ping(ctx context.Context) error {
	_, err := retryOnLearner(ctx, d.store.client, func() (*clientv3.GetResponse, error) {
		return d.store.client.Get(ctx, d.store.prefix+floors) // linearizable: a majority answers
	})
	return err
}

func (d *driver) Close() error {
	d.wakeups.Close()
	if d.store.keeper == nil { // the provider was never opened
		return nil
	}
	for len(d.store.freeLeases) > 0 {
		d.store.recycleLease(<-d.store.freeLeases, false)
	}
	d.store.revoking.Wait()
	d.store.keeper.stop()
	d.store.keeper.calls.Close()
	if d.options.Client != nil {
		return nil
	}
	return d.store.client.Close()
}

// watch reports the claims that end, by release, break or expiry. It is a
// wakeup.Connection.
type watch struct {
	client *clientv3.Client
	prefix string // of the claims
	ctx    context.Context
	cancel context.CancelFunc
	events clientv3.WatchChan
	names  []string // not returned by Receive yet
}

// connect starts a watch, and returns once the watch can miss no event. A member that has lost its leader ends the watch, and
// so does a compaction of events that were not sent yet.
func (s *store) connect(ctx context.Context) (wakeup.Connection, error) {
	w := &watch{client: s.client, prefix: s.prefix + claims}
	w.ctx, w.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	stop := context.AfterFunc(ctx, w.cancel) // Watch itself waits for a member
	w.events = w.client.Watch(w.ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	err := w.next(ctx)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		w.cancel()
		return nil, err
	}
	return w, nil
}

// next receives the next message of the watch, which may be the creation notice.
func (w *watch) next(ctx context.Context) error {
	select {
	case response, open := <-w.events:
		if !open {
			return errors.New("the watch has ended")
		}
		for _, event := range response.Events {
			w.names = append(w.names, strings.TrimPrefix(string(event.Kv.Key), w.prefix))
		}
		return response.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive returns the name of the next claim that has ended.
func (w *watch) Receive(ctx context.Context) (name string, err error) {
	for len(w.names) == 0 {
		if err := w.next(ctx); err != nil {
			return "", err
		}
	}
	name, w.names = w.names[0], w.names[1:]
	return name, nil
}

func (w *watch) Ping(ctx context.Context) error {
	if err := w.client.RequestProgress(w.ctx); err != nil {
		return err
	}
	return w.next(ctx)
}

func (w *watch) Close() { w.cancel() }
