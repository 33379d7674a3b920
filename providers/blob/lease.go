package bloblease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// The bounds of the service's leases
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-lease-duration).
const (
	minTTL = 15 * time.Second
	maxTTL = 60 * time.Second
	// maxFreeDelay bounds the time for which the service may refuse an expired lease to other
	// claims: "a client may need to wait up to one minute before a new lease can be
	// acquired" (the same page, Remarks). Azurite frees such a lease at once.
	maxFreeDelay = time.Minute
	// reservation is the time for which a name stays reserved for a claim that is written and has
	// not yet acquired the lease. The round trip between the two requests takes milliseconds, but
	// the service's clock shows whole seconds.
	reservation = 3 * time.Second
	// infinite is the service's duration of an infinite lease.
	infinite int32 = -1
)

// seconds converts a TTL to the unit of the service, rounded up.
func seconds(ttl time.Duration) int32 {
	if ttl == abstractions.Infinite {
		return infinite
	}
	return int32((ttl + time.Second - 1) / time.Second)
}

// Complete compares a record with the service's lease. The holder of a lease is known for certain: claims acquire the lease only
// under a record with their ID. If the record has no claim, the lease belongs to another program, or its release is under way.
func (s *store) Complete(item cas.Item, r *providerkit.Record) (behind bool) {
	v := item.State.(*blobState)
	behind = v.lease == lease.StateTypeLeased && r.Breaking || v.isLocked() && r.ID == "" && v.holder != ""
	r.Breaking = r.ID != "" && (r.Breaking || v.lease == lease.StateTypeBroken || v.lease == lease.StateTypeBreaking)
	switch {
	case v.isLocked():
		r.Unconfirmed = r.ID == ""
		if r.Unconfirmed {
			r.Left = abstractions.Infinite
		}
		if !v.infinite || r.Left != abstractions.Infinite {
			r.Slack = abstractions.Infinite // the remaining time may be the whole TTL, or nothing
		}
	case v.lease == lease.StateTypeAvailable && r.ID != "" && !r.Breaking:
		r.Left = reservedFor(r)
		r.Unconfirmed = r.Left > 0
	default: // the lease ended after the last write
		r.Left = min(0, item.Written.Sub(r.Now))
	}
	return behind
}

// reservedFor returns how long a free name stays reserved for a claim that is written and
// has not yet acquired the lease.
func reservedFor(r *providerkit.Record) time.Duration {
	left := r.AcquiredAt.Add(reservation).Sub(r.Now)
	if left > 2*reservation { // the service's clocks differ by less
		return 0
	}
	return min(left, reservation)
}

// Reconcile releases, breaks, renews or acquires a lease. All operations but the
// release are conditional on an unchanged record. The release needs no condition, since
// it sends the claim's own ID.
//
// A state is exact if a lease operation has succeeded under its ETag. While the blob has that ETag,
// its lease has the record's duration, or has ended: the record is always written before its lease
// gets another duration. So a delayed copy of an earlier request can't restore the earlier
// duration. If the state is not exact, the lease may have a different duration, because the call
// that changed it ended halfway; the lease is then acquired with the record's duration. An infinite
// lease of an infinite record is renewed instead: an acquire would revive an infinite lease that
// was broken since.
func (s *store) Reconcile(ctx context.Context, item cas.Item, r *providerkit.Record) (_ cas.Item, err error) {
	v := *item.State.(*blobState)
	item.State = &v
	infinitely := r.TTL == abstractions.Infinite
	switch {
	case r.ID == "":
		if v.isLocked() {
			err = s.release(ctx, item.Key, v.holder)
		}
		v.lease = lease.StateTypeAvailable
		return item, err
	case r.Breaking:
		r.Left, err = s.breakLease(ctx, item.Key, breakPeriod(r), v.etag)
		v.lease = lease.StateTypeBreaking
		return item, err
	// A renewal restarts the duration. The service also renews a lease that has run out, unless the blob was written or leased
	// since. It never renews a lease that was broken (learn.microsoft.com/rest/api/storageservices/lease-blob, Remarks).
	case v.exact || v.infinite && infinitely:
		_, err = s.lease(item.Key, r.ID).RenewLease(ctx, &lease.BlobRenewOptions{ModifiedAccessConditions: ifMatch(v.etag)})
	default:
		_, err = s.lease(item.Key, r.ID).AcquireLease(ctx, seconds(r.TTL), &lease.BlobAcquireOptions{ModifiedAccessConditions: ifMatch(v.etag)})
		if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
			// The record is ours and the lease is not. It belongs to another program,
			// or the service has not freed it yet, although it shows the lease as
			// expired.
			return item, &abstractions.HeldError{Holder: abstractions.Record{Name: r.Name, Token: r.Token, Now: r.Now, Held: true, Unconfirmed: true}}
		}
	}
	v.lease, v.exact, v.infinite = lease.StateTypeLeased, true, infinitely
	return item, s.failure(err)
}

// breakPeriod returns the time in seconds for which a lease still runs after a Break. A lease with
// less time left ends earlier. Without a period an infinite lease would end at once
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-lease-break-period). The lease may
// be infinite, or longer, although the record already has another duration: see Reconcile.
func breakPeriod(r *providerkit.Record) int32 {
	if r.TTL == abstractions.Infinite {
		return max(1, seconds(r.Left))
	}
	return seconds(maxTTL)
}

// release ends a claim's lease. It needs no condition: only the claim has this lease
// ID.
func (s *store) release(ctx context.Context, key, id string) error {
	_, err := s.lease(key, id).ReleaseLease(ctx, nil)
	return s.failure(err)
}

// breakLease breaks any lease of the blob, after a period in seconds or the rest of the
// lease's time, and returns the time until the end. It sends no ID.
func (s *store) breakLease(ctx context.Context, key string, period int32, etag azcore.ETag) (time.Duration, error) {
	answer, err := s.lease(key, "").BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: &period, ModifiedAccessConditions: ifMatch(etag)})
	return time.Duration(deref(answer.LeaseTime)) * time.Second, s.failure(err)
}

// ifMatch returns the condition that the blob was not written since: every write changes the ETag,
// and a lease operation does not.
func ifMatch(etag azcore.ETag) *lease.ModifiedAccessConditions {
	return &lease.ModifiedAccessConditions{IfMatch: &etag}
}

// lease returns the client of a claim's lease. The constructor fails only if it has to
// generate an ID.
func (s *store) lease(key, id string) *lease.BlobClient {
	client, _ := lease.NewBlobClient(s.container.NewBlobClient(key), &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID(id))})
	return client
}

// guid is the form of leasing.NewID. It excludes upper case: the service ignores the
// case of an ID, and for the core an ID in another case is another ID.
var guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// leaseID returns the lease ID of a claim. It is the claim's ID, so that the service
// treats a repeated acquire as the same acquire. The service accepts only GUIDs
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-proposed-lease-id); an
// ID of another form is hashed into a GUID of version 8 of RFC 9562, a version that
// NewID never makes.
func leaseID(id string) string {
	if guid.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
