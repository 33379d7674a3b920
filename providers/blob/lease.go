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
)

// What the service grants (learn.microsoft.com/rest/api/storageservices/lease-blob,
// x-ms-lease-duration).
const (
	minTTL = 15 * time.Second
	maxTTL = 60 * time.Second
	// lag is how long the service may refuse an expired lease to others: "a client
	// may need to wait up to one minute before a new lease can be acquired"
	// (the same page, Remarks). Azurite has none.
	lag = time.Minute
	// reservation is how long a name stays reserved for whoever has written its
	// claim and not yet taken the lease. The round trip between the two takes
	// milliseconds, the service's clock shows whole seconds.
	reservation = 3 * time.Second
	// infinite is the service's duration of a lease without an end.
	infinite int32 = -1
)

// seconds is a TTL as the service counts it, rounded up.
func seconds(ttl time.Duration) int32 {
	if ttl == abstractions.Infinite {
		return infinite
	}
	return int32((ttl + time.Second - 1) / time.Second)
}

// Complete compares a record with the service's lease. The holder of a lease is certain:
// nobody takes it but under the record that names him. Only one that another program
// has taken, and one whose release is under way, is under a record that names nobody.
func (s *store) Complete(item providerkit.Item, r *providerkit.Record) (behind bool) {
	v := item.State.(*view)
	behind = v.lease == lease.StateTypeLeased && r.Breaking || v.locked() && r.ID == "" && v.holder != ""
	r.Breaking = r.ID != "" && (r.Breaking || v.lease == lease.StateTypeBroken || v.lease == lease.StateTypeBreaking)
	switch {
	case v.locked():
		r.Unconfirmed = r.ID == ""
		if r.Unconfirmed {
			r.Left = abstractions.Infinite
		}
		if !v.infinite || r.Left != abstractions.Infinite {
			r.Slack = abstractions.Infinite // it may be the whole TTL, or nothing
		}
	case v.lease == lease.StateTypeAvailable && r.ID != "" && !r.Breaking:
		r.Left = reserved(r)
		r.Unconfirmed = r.Left > 0
	default: // it ended after the last write
		r.Left = min(0, item.Written.Sub(r.Now))
	}
	return behind
}

// reserved is how long a free name is still reserved for whoever has written its
// claim and not taken the lease yet.
func reserved(r *providerkit.Record) time.Duration {
	left := r.AcquiredAt.Add(reservation).Sub(r.Now)
	if left > 2*reservation { // the service's clocks don't differ by so much
		return 0
	}
	return min(left, reservation)
}

// Reconcile releases, breaks, renews or acquires a lease. All but the release are on
// condition that the record is still the same, and a lease is given up by its claim's
// own ID.
//
// While a record has the ETag that a view is exact with, its lease has the duration
// that the record says, or has ended: before a lease gets another duration the record
// says so. So no copy of an earlier request that was delayed changes it back. Otherwise
// the lease may have another one, if the call that changed it ended half way, and
// is acquired again. An infinite one is not: that would bring one back that was broken
// since.
func (s *store) Reconcile(ctx context.Context, item providerkit.Item, r *providerkit.Record) (_ providerkit.Item, err error) {
	v := *item.State.(*view)
	item.State = &v
	infinitely := r.TTL == abstractions.Infinite
	switch {
	case r.ID == "":
		if v.locked() {
			err = s.release(ctx, item.Key, v.holder)
		}
		v.lease = lease.StateTypeAvailable
		return item, err
	case r.Breaking:
		r.Left, err = s.breakLease(ctx, item.Key, breakPeriod(r), v.etag)
		v.lease = lease.StateTypeBreaking
		return item, err
	// A renewal begins the duration anew. The service renews a lease that has run out,
	// too, if the blob was neither written nor leased since, and none that was broken
	// (learn.microsoft.com/rest/api/storageservices/lease-blob, Remarks).
	case v.exact || v.infinite && infinitely:
		_, err = s.lease(item.Key, r.ID).RenewLease(ctx, &lease.BlobRenewOptions{ModifiedAccessConditions: same(v.etag)})
	default:
		_, err = s.lease(item.Key, r.ID).AcquireLease(ctx, seconds(r.TTL), &lease.BlobAcquireOptions{ModifiedAccessConditions: same(v.etag)})
		if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
			// The record is ours and the lease is not: another program's, or one
			// that the service has not freed yet although it shows it as expired.
			return item, &abstractions.HeldError{Holder: abstractions.Record{Name: r.Name, Token: r.Token, Now: r.Now, Held: true, Unconfirmed: true}}
		}
	}
	v.lease, v.exact, v.infinite = lease.StateTypeLeased, true, infinitely
	return item, s.failure(err)
}

// breakPeriod is how long a lease still runs after a Break, unless that is the rest of
// its time anyway. Without one an infinite lease would end at once
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-lease-break-period),
// and the lease may be infinite, or longer, although the record has another duration
// already: see Reconcile.
func breakPeriod(r *providerkit.Record) int32 {
	if r.TTL == abstractions.Infinite {
		return max(1, seconds(r.Left))
	}
	return seconds(maxTTL)
}

// release gives a claim's lease up. No condition: a lease ID is a claim's own.
func (s *store) release(ctx context.Context, key, id string) error {
	_, err := s.lease(key, id).ReleaseLease(ctx, nil)
	return s.failure(err)
}

// breakLease breaks whatever lease there is, after a period in seconds or the rest of
// its time, and says when that is. It sends no ID.
func (s *store) breakLease(ctx context.Context, key string, period int32, etag azcore.ETag) (time.Duration, error) {
	answer, err := s.lease(key, "").BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: &period, ModifiedAccessConditions: same(etag)})
	return time.Duration(deref(answer.LeaseTime)) * time.Second, s.failure(err)
}

// same is the condition that nobody has written since: a lease operation does not
// change the ETag, every write does.
func same(etag azcore.ETag) *lease.ModifiedAccessConditions {
	return &lease.ModifiedAccessConditions{IfMatch: &etag}
}

// lease is the client of a claim's lease. The library has an error only where it has to
// make up an ID.
func (s *store) lease(key, id string) *lease.BlobClient {
	client, _ := lease.NewBlobClient(s.container.NewBlobClient(key), &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID(id))})
	return client
}

// guid is the form that leasing.NewID has. Upper case is left out: the service
// does not tell it from lower case, and to the core these are two IDs.
var guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// leaseID is the lease ID of a claim: its ID, so that an acquire which is sent
// again is the same acquire to the service. The service takes GUIDs only
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-proposed-lease-id);
// an ID of another form is hashed into one, version 8 of RFC 9562, which no
// NewID has.
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
