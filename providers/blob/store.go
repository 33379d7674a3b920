package bloblease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// store implements cas.Store and cas.Leases (lease.go) over the container. It has a blob
// for each key, with the record in the blob's metadata.
type store struct {
	container *container.Client
	naming    cas.Naming
	create    bool // create a missing container
}

// blobState is a blob's state, as reported by an answer. It is the State of an item.
type blobState struct {
	noContainer bool
	etag        azcore.ETag // "" if there is no blob
	size        int64
	lease       lease.StateType
	infinite    bool               // the lease is infinite
	exact       bool               // see Reconcile
	holder      string             // the ID under whose lease, if any, the record was written
	others      map[string]*string // metadata of other programs
}

// isLocked reports whether the blob has a lease of the service.
func (v *blobState) isLocked() bool {
	return v.lease == lease.StateTypeLeased || v.lease == lease.StateTypeBreaking
}

// Get reads a blob. A missing blob is not an error, and neither is a missing container
// that the next write creates.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	answer, err := s.container.NewBlobClient(key).GetProperties(ctx, nil)
	item := cas.Item{Key: key, Now: deref(answer.Date), Written: deref(answer.LastModified)}
	v := blobState{
		etag: deref(answer.ETag), size: deref(answer.ContentLength),
		lease: deref(answer.LeaseState), infinite: deref(answer.LeaseDuration) == lease.DurationTypeInfinite,
	}
	switch {
	case err == nil:
		item, err = v.item(item, answer.Metadata)
	case isMissing(err), s.willCreate(err):
		item.Now = dateOf(err)
		item.State = &blobState{noContainer: !isMissing(err)}
		err = nil
	}
	if err == nil && item.Now.IsZero() { // the token needs the clock
		err = errNoClock
	}
	return item, shortError(err)
}

var errNoClock = fmt.Errorf("%w: the service's answer has no Date", abstractions.ErrThrottled)

// item completes an item from the blob's metadata. It refuses the blob of another
// program at a name's key, because a lease would block that program's writes. An empty
// blob without a record was created in advance, and counts as a name that was never seen, unless
// it is a folder.
func (v blobState) item(item cas.Item, metadata map[string]*string) (cas.Item, error) {
	var err error
	v.holder, item.Data, v.others, err = decode(metadata)
	if item.State = &v; item.Data != nil {
		item.Version = string(v.etag)
	}
	switch {
	case err == nil && item.Data == nil && isFolder(v.others):
		err = errors.New("the blob is a folder")
	case err == nil && item.Data == nil && v.size > 0:
		err = errors.New("the blob has content, and no lease record")
	}
	if err != nil {
		err = fmt.Errorf("%w: the blob %q is not this library's, and is left unchanged: %w; use a container of its own for leases, or set Options.Prefix", abstractions.ErrNotSetUp, item.Key, err)
	}
	if err != nil && v.isLocked() {
		err = lockedError{err}
	}
	return item, err
}

// isFolder reports whether an empty blob represents a folder: "blobs with metadata
// hdi_isfolder:true" (learn.microsoft.com/azure/storage/common/storage-ref-azcopy-copy,
// --include-directory-stub). A folder of a hierarchical namespace has the same
// metadata.
func isFolder(metadata map[string]*string) bool {
	for name, value := range metadata {
		if strings.EqualFold(name, "hdi_isfolder") && strings.EqualFold(deref(value), "true") {
			return true
		}
	}
	return false
}

// Put creates a blob with its record, or replaces the record, if the blob was not
// written since it was read, and its lease is absent or still its holder's.
func (s *store) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	v := *old.State.(*blobState)
	if v.noContainer && r.ID == "" { // a new container would only record a free name
		return old, nil
	}
	if v.isLocked() && v.holder == "" && len(r.Ended) > 0 { // the record was overwritten, perhaps under the lease that now ends
		v.holder = r.Ended[len(r.Ended)-1].ID
	}
	under := v.holder
	v.holder = cmp.Or(r.ID, v.holder)
	metadata, err := encode(v.holder, data, v.others)
	if err != nil {
		return old, err
	}
	item := cas.Item{Key: old.Key, Data: data, State: &v}
	conditions := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{}}
	if v.etag == "" {
		if v.noContainer {
			err = s.createContainer(ctx)
		}
		if err != nil {
			return old, s.failure(err)
		}
		conditions.ModifiedAccessConditions.IfNoneMatch = to.Ptr(azcore.ETagAny)
		answer, failed := s.container.NewBlockBlobClient(old.Key).Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)),
			&blockblob.UploadOptions{Metadata: metadata, AccessConditions: conditions})
		v.etag, item.Now, item.Written, err = deref(answer.ETag), deref(answer.Date), deref(answer.LastModified), failed
	} else {
		conditions.ModifiedAccessConditions.IfMatch = to.Ptr(v.etag)
		if v.isLocked() && under != "" {
			conditions.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: to.Ptr(leaseID(under))}
		}
		answer, failed := s.container.NewBlobClient(old.Key).SetMetadata(ctx, metadata, &blob.SetMetadataOptions{AccessConditions: conditions})
		v.etag, item.Now, item.Written, err = deref(answer.ETag), deref(answer.Date), deref(answer.LastModified), failed
	}
	if !v.isLocked() {
		v.lease = lease.StateTypeAvailable
	}
	v.noContainer, v.exact, item.Version = false, false, string(v.etag)
	return item, s.failure(err)
}

// createContainer creates the container if it is missing.
func (s *store) createContainer(ctx context.Context) error {
	_, err := s.container.Create(ctx, nil)
	if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil
	}
	return err
}

// List lists blobs in the order of their names, except those that item refuses.
func (s *store) List(ctx context.Context, q cas.ListQuery) (items []cas.Item, next string, err error) {
	options := &container.ListBlobsFlatOptions{
		Include: container.ListBlobsInclude{Metadata: true}, Prefix: to.Ptr(s.naming.EncodePrefix(q.Prefix)), MaxResults: to.Ptr(int32(q.Limit)),
	}
	if q.After != "" {
		options.Marker = &q.After
	}
	answer, err := s.container.NewListBlobsFlatPager(options).NextPage(ctx)
	switch {
	case s.willCreate(err):
		return nil, "", nil
	case q.After != "" && bloberror.HasCode(err, bloberror.OutOfRangeInput, bloberror.InvalidQueryParameterValue, bloberror.OutOfRangeQueryParameterValue, bloberror.InvalidInput):
		return nil, "", &abstractions.InvalidError{Field: "After", Value: q.After, Want: "Next of the page before"}
	case err != nil:
		return nil, "", shortError(err)
	}
	for _, b := range answer.Segment.BlobItems {
		item, v := cas.Item{Key: deref(b.Name), Now: deref(answer.Date)}, blobState{}
		if p := b.Properties; p != nil {
			item.Written = deref(p.LastModified)
			v = blobState{etag: deref(p.ETag), size: deref(p.ContentLength), lease: deref(p.LeaseState), infinite: deref(p.LeaseDuration) == lease.DurationTypeInfinite}
		}
		if item, err := v.item(item, b.Metadata); err == nil {
			items = append(items, item)
		}
	}
	return items, deref(answer.NextMarker), nil
}

// Delete deletes a blob that is not leased, was not written since it was read, and has no
// content, no metadata of other programs, and no snapshot or immutability policy.
func (s *store) Delete(ctx context.Context, item cas.Item) error {
	v := item.State.(*blobState)
	if v.size > 0 || len(v.others) > 0 {
		return cas.ErrConflict
	}
	_, err := s.container.NewBlobClient(item.Key).Delete(ctx, &blob.DeleteOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &v.etag}},
	})
	if bloberror.HasCode(err, bloberror.SnapshotsPresent, bloberror.BlobImmutableDueToPolicy) {
		return cas.ErrConflict
	}
	return s.failure(err)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
