package bloblease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

type shell = providerkit.Provider

// Provider is a leasing provider over Azure Blob Storage. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// It also implements abstractions.Lister and abstractions.Pinger. The service has no batches of
// lease operations and sends no notifications, so renewals are sent one by one, and waiters poll.
//
// Break accepts a Grace of at most 60 s, the longest break period of the service, and
// rounds it up to seconds. Where another program has the lease, or the record was
// overwritten, only a Break without a token ends the lease. If the container is missing,
// Release stores nothing: no acquire of that claim can have sent more than a read.
// Close closes idle connections, except those of Options.ClientOptions.Transport.
type Provider struct {
	*shell
	driver *driver
}

// driver is the part of the provider that depends on the service. The embedded Records
// implements the rules of leases.
type driver struct {
	cas.Records
	store *store
	caps  abstractions.Capabilities
	idle  func() // closes the connections that Open made
}

// provider wraps the driver. The wrapper detaches calls, because the client library does not always
// obey contexts: azcore's BearerTokenPolicy has one call request the token, and all other calls
// wait for that request.
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
		Lateness:    abstractions.Lateness{Fixed: maxFreeDelay + reservation},
	}
}

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

func (d *driver) Close() error {
	d.idle()
	return nil
}

// Renew sends one request if only the end of the lease changes. If the container is gone,
// so is the lease.
func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	grant, err := d.Records.Renew(ctx, req)
	if isNoContainer(err) {
		err = &abstractions.LostError{Reason: abstractions.LostGone, Err: err}
	}
	return grant, err
}

// Release also ends a claim's lease if other content has replaced the record. A blob
// without a record can't refuse an ID, but does not need to: every request of the claim that is
// in flight fails, because the ETag has changed.
func (d *driver) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	err := d.Records.Release(ctx, req)
	if isLockedByOthers(err) {
		if ended := d.store.release(ctx, d.Key(req.Name), req.ID); !errors.Is(ended, cas.ErrConflict) {
			return ended
		}
	}
	return err
}

// Break also breaks a lease without a record, which is either another program's or on an
// overwritten blob. A lease without a record has no token.
func (d *driver) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.Grace > maxTTL {
		return abstractions.BreakResult{}, &abstractions.InvalidError{Field: "Grace", Value: req.Grace, Want: "at most 60s, the longest break period of the Blob service"}
	}
	result, err := d.Records.Break(ctx, req)
	if req.IfToken != 0 || !errors.Is(err, abstractions.ErrStale) && !isLockedByOthers(err) {
		return result, err
	}
	item, err := d.store.Get(ctx, d.Key(req.Name))
	v, seen := item.State.(*blobState)
	if !seen || !v.isLocked() {
		return abstractions.BreakResult{Token: result.Token}, err
	}
	period := max(1, seconds(req.Grace))
	if req.Immediate {
		period = 0
	} else if req.Grace == 0 {
		period = seconds(maxTTL) // or the rest of the lease's time, if that is shorter
	}
	result.WasHeld = true
	result.Remaining, err = d.store.breakLease(ctx, item.Key, period, v.etag)
	return result, err
}

// Sweep deletes the blobs of free names whose last write is older than Options.Retention, and
// returns their number. It makes one request for 100 names, and one for each deletion. Several
// processes may sweep at the same time.
//
// A swept name counts as never seen: released IDs are no longer refused, and the next
// token comes from the service's clock, which is past all earlier tokens. A name that
// is acquired during the sweep is kept: the service deletes no blob that is leased or
// was written after the sweep's read. A blob with a snapshot or an immutability policy is also kept.
//
// Renewals write nothing, so a name that was held for longer than Retention may be
// swept as soon as its lease has ended.
//
// A lifecycle management rule of the service can do the same at no cost, a day or more
// after the last write: it deletes base blobs under Options.Prefix by
// daysAfterModificationGreaterThan
// (learn.microsoft.com/azure/storage/blobs/lifecycle-management-overview). The rule
// fails on leased blobs, as intended.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	return providerkit.Sweep(ctx, p.shell, p.driver.SweepPage)
}
