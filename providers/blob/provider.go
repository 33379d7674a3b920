package bloblease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

type shell = providerkit.Provider

// Provider is a leasing provider over Azure Blob Storage. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are abstractions.Lister and abstractions.Pinger. The service has no
// batches of lease operations, and pushes nothing: renewals are sent one by one,
// and waiters poll.
//
// Break accepts a Grace of at most 60 s, the longest break period of the service, and
// rounds it up to seconds. Where another program has the lease, or the record was
// overwritten, a Break without a token ends that lease, and no other. A Release where
// there is no container remembers nothing: no acquire of that claim can have sent
// more than a look. Close closes idle connections unless they are those of
// Options.ClientOptions.Transport.
type Provider struct {
	*shell
	driver *driver
}

// driver is what of the provider knows the service. The rules are Records'.
type driver struct {
	providerkit.Records
	store *store
	caps  abstractions.Capabilities
	idle  func() // closes the connections that Open made
}

// provider wraps the driver. The client library does not always heed contexts: while
// it waits for a token that another call has asked for, it waits for that call
// (azcore's BearerTokenPolicy has one request for all).
func (d *driver) provider(timeout time.Duration) *Provider {
	return &Provider{shell: providerkit.New(d, providerkit.Config{Timeout: timeout, Detach: true}), driver: d}
}

func capabilitiesOf(o Options) abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:    "blob",
		MinTTL:      minTTL,
		MaxTTL:      maxTTL,
		Granularity: time.Second,
		Infinite:    o.Infinite,
		Clock:       "the Blob service's clock",
		Lateness:    abstractions.Lateness{Fixed: lag + reservation},
	}
}

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

func (d *driver) Close() error {
	d.idle()
	return nil
}

// Renew is one request if nothing changes but the end of the lease. Leases are gone
// with their container.
func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	grant, err := d.Records.Renew(ctx, req)
	if isNoContainer(err) {
		err = &abstractions.LostError{Reason: abstractions.LostGone, Err: err}
	}
	return grant, err
}

// Release also gives a lease up under which somebody has replaced the record by content
// of his own. What has no record any more can't refuse an ID, and need not: all that is
// on its way for that claim meets another ETag.
func (d *driver) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	err := d.Records.Release(ctx, req)
	if isLockedByOthers(err) {
		if ended := d.store.release(ctx, d.Key(req.Name), req.ID); !errors.Is(ended, providerkit.ErrConflict) {
			return ended
		}
	}
	return err
}

// Break also breaks a lease that no record tells of, of another program or of a blob
// that was overwritten. It has no token.
func (d *driver) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.Grace > maxTTL {
		return abstractions.BreakResult{}, &abstractions.InvalidError{Field: "Grace", Value: req.Grace, Want: "at most 60s, the longest break period of the Blob service"}
	}
	result, err := d.Records.Break(ctx, req)
	if req.IfToken != 0 || !errors.Is(err, abstractions.ErrStale) && !isLockedByOthers(err) {
		return result, err
	}
	item, err := d.store.Get(ctx, d.Key(req.Name))
	v, seen := item.State.(*view)
	if !seen || !v.locked() {
		return abstractions.BreakResult{Token: result.Token}, err
	}
	period := max(1, seconds(req.Grace))
	if req.Immediate {
		period = 0
	} else if req.Grace == 0 {
		period = seconds(maxTTL) // or the rest of its time, if that is shorter
	}
	result.WasHeld = true
	result.Remaining, err = d.store.breakLease(ctx, item.Key, period, v.etag)
	return result, err
}

// Sweep deletes the blobs of names that nobody has, and that were last written
// longer than Options.Retention ago, and returns how many. It looks at 100 names in
// one request, and deletes with one request each. Several may sweep at a time.
//
// A name that is swept is a name that was never seen: IDs that were released are
// no longer refused, and its next token comes from the service's clock, which is
// past all earlier ones. A name that is taken meanwhile is left alone: the service
// deletes no blob that is leased or was written since. So is one that somebody keeps
// by a snapshot or an immutability policy.
//
// Renewals write nothing, so a name that was held for longer than Retention may be
// swept as soon as its lease has ended.
//
// The service itself can do the same at no cost, a day or more after the last
// write: a lifecycle management rule that deletes base blobs by
// daysAfterModificationGreaterThan under Options.Prefix
// (learn.microsoft.com/azure/storage/blobs/lifecycle-management-overview). It
// fails on blobs that are leased, as it should.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}
