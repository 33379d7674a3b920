package bloblease

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// store is the container. Each of its methods is one request; errors are the client
// library's.
type store struct {
	container *container.Client
	naming    providerkit.Naming
}

// view is what a request has shown of a name.
type view struct {
	exists      bool
	noContainer bool
	etag        azcore.ETag
	now         time.Time // the service's clock, in whole seconds; zero if it does not tell
	modified    time.Time
	size        int64
	lease       lease.StateType
	infinite    bool // the lease is
	found       bool // there is a record
	record      record
	others      map[string]*string // metadata that is not ours
}

// locked reports whether somebody has the service's lease.
func (v view) locked() bool {
	return v.lease == lease.StateTypeLeased || v.lease == lease.StateTypeBreaking
}

// isBroken reports whether the service takes the lease for broken, whoever broke it.
func (v view) isBroken() bool {
	return v.lease == lease.StateTypeBroken || v.lease == lease.StateTypeBreaking
}

// holder is the ID under whose lease the record is written, "" if there is none.
func (v view) holder() string {
	if !v.locked() {
		return ""
	}
	return cmp.Or(v.record.ID, v.record.Over)
}

// head shows a name. One without a blob is no error.
func (s store) head(ctx context.Context, name string) (view, error) {
	answer, err := s.blob(name).GetProperties(ctx, nil)
	if isMissing(err) {
		return view{now: dateOf(err)}, nil
	}
	if err != nil {
		return view{}, err
	}
	v := view{
		exists: true, etag: deref(answer.ETag), now: deref(answer.Date), modified: deref(answer.LastModified),
		size: deref(answer.ContentLength), lease: deref(answer.LeaseState), infinite: deref(answer.LeaseDuration) == lease.DurationTypeInfinite,
	}
	v.record, v.found, v.others, err = decodeRecord(answer.Metadata)
	return v, s.checkOurs(name, v, err)
}

// checkOurs refuses a blob that somebody else has put where a name's would be: a
// lease would keep its owner from writing it. An empty one that has no record,
// made in advance, is taken for a name that was never seen, unless it is a folder.
func (s store) checkOurs(name string, v view, unreadable error) error {
	folder := !v.found && isFolder(v.others)
	if unreadable != nil || !v.found && v.size > 0 || folder {
		return &notOursError{blob: s.naming.Encode(name), folder: folder, err: unreadable}
	}
	return nil
}

// isFolder reports whether an empty blob stands for a folder: "blobs with metadata
// hdi_isfolder:true" (learn.microsoft.com/azure/storage/common/storage-ref-azcopy-copy,
// --include-directory-stub). A folder of a hierarchical namespace shows the same.
func isFolder(metadata map[string]*string) bool {
	for name, value := range metadata {
		if strings.EqualFold(name, "hdi_isfolder") && strings.EqualFold(deref(value), "true") {
			return true
		}
	}
	return false
}

// create makes the blob of a name with its record, unless there is one.
func (s store) create(ctx context.Context, name string, r record) (view, error) {
	r.Name = name
	metadata, err := r.encode(nil)
	if err != nil {
		return view{}, err
	}
	answer, err := s.container.NewBlockBlobClient(s.naming.Encode(name)).Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), &blockblob.UploadOptions{
		Metadata: metadata,
		AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)},
		},
	})
	if err != nil {
		return view{}, err
	}
	return view{exists: true, etag: deref(answer.ETag), now: deref(answer.Date), found: true, record: r, lease: lease.StateTypeAvailable}, nil
}

// write replaces the record if nobody else has written since v, and if the lease is
// still that of v's holder, or nobody's.
func (s store) write(ctx context.Context, name string, v view, r record) (view, error) {
	r.Name = name
	metadata, err := r.encode(v.others)
	if err != nil {
		return view{}, err
	}
	conditions := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &v.etag}}
	holder := v.holder()
	if holder != "" {
		conditions.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: to.Ptr(leaseID(holder))}
	}
	answer, err := s.blob(name).SetMetadata(ctx, metadata, &blob.SetMetadataOptions{AccessConditions: conditions})
	if err != nil {
		return view{}, err
	}
	v.etag, v.now, v.modified = deref(answer.ETag), deref(answer.Date), deref(answer.LastModified)
	v.record, v.found = r, true
	if holder == "" {
		v.lease = lease.StateTypeAvailable
	}
	return v, nil
}

// acquire takes the lease for a claim, or sets the duration of the lease that it
// has, if the record is still the one with that ETag.
func (s store) acquire(ctx context.Context, name, id string, duration int32, etag azcore.ETag) error {
	client, err := s.lease(name, id)
	if err == nil {
		_, err = client.AcquireLease(ctx, duration, &lease.BlobAcquireOptions{
			ModifiedAccessConditions: &lease.ModifiedAccessConditions{IfMatch: &etag},
		})
	}
	return err
}

// renew begins the duration of a claim's lease anew, if the record is still the one
// with that ETag. The service renews one that has run out, too, if the blob was
// neither written nor leased since, and none that was broken
// (learn.microsoft.com/rest/api/storageservices/lease-blob, Remarks).
func (s store) renew(ctx context.Context, name, id string, etag azcore.ETag) error {
	client, err := s.lease(name, id)
	if err == nil {
		_, err = client.RenewLease(ctx, &lease.BlobRenewOptions{
			ModifiedAccessConditions: &lease.ModifiedAccessConditions{IfMatch: &etag},
		})
	}
	return err
}

// release gives a claim's lease up. No condition: a lease ID is a claim's own.
func (s store) release(ctx context.Context, name, id string) error {
	client, err := s.lease(name, id)
	if err == nil {
		_, err = client.ReleaseLease(ctx, nil)
	}
	return err
}

// breakLease breaks whatever lease there is if the record is still the one with
// that ETag, after a period in seconds or the rest of its time, and says when that is.
func (s store) breakLease(ctx context.Context, name string, period int32, etag azcore.ETag) (time.Duration, error) {
	client, err := s.lease(name, "") // an ID is not sent
	if err != nil {
		return 0, err
	}
	answer, err := client.BreakLease(ctx, &lease.BlobBreakOptions{
		BreakPeriod: &period, ModifiedAccessConditions: &lease.ModifiedAccessConditions{IfMatch: &etag},
	})
	return time.Duration(deref(answer.LeaseTime)) * time.Second, err
}

// remove deletes a blob that nobody has leased or written since.
func (s store) remove(ctx context.Context, name string, etag azcore.ETag) error {
	_, err := s.blob(name).Delete(ctx, &blob.DeleteOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}},
	})
	return err
}

// createContainer makes the container, unless there is one.
func (s store) createContainer(ctx context.Context) error {
	_, err := s.container.Create(ctx, nil)
	if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil
	}
	return err
}

func (s store) blob(name string) *blob.Client {
	return s.container.NewBlobClient(s.naming.Encode(name))
}

func (s store) lease(name, id string) (*lease.BlobClient, error) {
	return lease.NewBlobClient(s.blob(name), &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID(id))})
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

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
