package bloblease

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/distributedleasing/leasing/abstractions"
)

// listed is a blob of a page.
type listed struct {
	blob, name string
	view       view
}

// page lists blobs, with their metadata and lease states, in one request. Those
// that are not ours are left out.
func (s store) page(ctx context.Context, prefix, marker string, limit int) (found []listed, next string, now time.Time, err error) {
	options := &container.ListBlobsFlatOptions{
		Include: container.ListBlobsInclude{Metadata: true}, Prefix: to.Ptr(s.naming.EncodePrefix(prefix)), MaxResults: to.Ptr(int32(limit)),
	}
	if marker != "" {
		options.Marker = &marker
	}
	answer, err := s.container.NewListBlobsFlatPager(options).NextPage(ctx)
	if err != nil {
		return nil, "", time.Time{}, err
	}
	now = deref(answer.Date)
	for _, item := range answer.Segment.BlobItems {
		v := listedView(item, now)
		name := v.record.Name
		if v.found && s.naming.Encode(name) == deref(item.Name) && strings.HasPrefix(name, prefix) {
			found = append(found, listed{deref(item.Name), name, v})
		}
	}
	return found, deref(answer.NextMarker), now, nil
}

func listedView(item *container.BlobItem, now time.Time) view {
	v := view{exists: true, now: now}
	if p := item.Properties; p != nil {
		v.etag, v.modified, v.lease, v.size = deref(p.ETag), deref(p.LastModified), deref(p.LeaseState), deref(p.ContentLength)
	}
	var err error
	v.record, v.found, v.others, err = decodeRecord(item.Metadata)
	v.found = v.found && err == nil
	return v
}

// List lists records, in the order of their blobs' names.
func (d *driver) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	found, next, _, err := d.store.page(ctx, req.Prefix, req.After, req.PageLimit())
	if err != nil {
		return abstractions.ListResult{}, d.listFailure(err, req.After)
	}
	result := abstractions.ListResult{Next: next}
	for _, one := range found {
		// Nobody ever held a name whose latest token is 0.
		if record := one.view.shown(one.name); record.Held || record.Token > 0 && !req.HeldOnly {
			result.Records = append(result.Records, record)
		}
	}
	return result, nil
}

func (d *driver) listFailure(err error, after string) error {
	switch {
	case d.willCreate(err):
		return nil
	case after != "" && hasCode(err, bloberror.OutOfRangeInput, bloberror.InvalidQueryParameterValue, bloberror.OutOfRangeQueryParameterValue, bloberror.InvalidInput):
		return &abstractions.InvalidError{Field: "After", Value: after, Want: "Next of the page before"}
	}
	return err
}
