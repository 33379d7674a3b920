package bloblease

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// page lists names, with their records and lease states, in one request. Blobs that are
// not ours are left out.
func (s store) page(ctx context.Context, prefix, marker string, limit int) (found []view, next string, err error) {
	options := &container.ListBlobsFlatOptions{
		Include: container.ListBlobsInclude{Metadata: true}, Prefix: to.Ptr(s.naming.EncodePrefix(prefix)), MaxResults: to.Ptr(int32(limit)),
	}
	if marker != "" {
		options.Marker = &marker
	}
	answer, err := s.container.NewListBlobsFlatPager(options).NextPage(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, item := range answer.Segment.BlobItems {
		v := view{exists: true, now: deref(answer.Date)}
		if p := item.Properties; p != nil {
			v.etag, v.modified, v.lease, v.size = deref(p.ETag), deref(p.LastModified), deref(p.LeaseState), deref(p.ContentLength)
		}
		var unreadable error
		v.record, v.found, v.others, unreadable = decodeRecord(item.Metadata)
		name := v.record.Name
		if v.found && unreadable == nil && s.naming.Encode(name) == deref(item.Name) && strings.HasPrefix(name, prefix) {
			found = append(found, v)
		}
	}
	return found, deref(answer.NextMarker), nil
}

// List lists records, in the order of their blobs' names.
func (d *driver) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	found, next, err := d.store.page(ctx, req.Prefix, req.After, req.PageLimit())
	if err != nil {
		return abstractions.ListResult{}, d.listFailure(err, req.After)
	}
	result := abstractions.ListResult{Next: next}
	for _, v := range found {
		// Nobody ever held a name whose latest token is 0.
		if record := v.shown(v.record.Name); record.Held || record.Token > 0 && !req.HeldOnly {
			result.Records = append(result.Records, record)
		}
	}
	return result, nil
}

func (d *driver) listFailure(err error, after string) error {
	switch {
	case d.willCreate(err):
		return nil
	case after != "" && bloberror.HasCode(err, bloberror.OutOfRangeInput, bloberror.InvalidQueryParameterValue, bloberror.OutOfRangeQueryParameterValue, bloberror.InvalidInput):
		return &abstractions.InvalidError{Field: "After", Value: after, Want: "Next of the page before"}
	}
	return err
}

func (d *driver) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	v, err := d.look(ctx, req.Name)
	if err != nil {
		return abstractions.Record{}, err
	}
	return v.shown(req.Name), nil
}

// shown is a view in the words of package leasing. Who holds the lease is certain:
// nobody takes it but under the record that names him. Only a lease that another
// program has taken is not, and one whose release is under way.
func (v view) shown(name string) abstractions.Record {
	if v.locked() && v.record.ID == "" {
		return abstractions.Record{Name: name, Token: v.record.Token, Now: v.now, Held: true, Unconfirmed: true}
	}
	shown := v.rules(name, "").Show()
	shown.Breaking = shown.Breaking || v.lease == lease.StateTypeBreaking
	shown.ExpiresAt = time.Time{} // the service does not tell
	return shown
}

// pingBlob is a blob that no name has: see providerkit.Naming.
const pingBlob = "~"

// Ping asks whether the service answers, knows the container and lets us read.
func (d *driver) Ping(ctx context.Context) error {
	_, err := d.store.container.NewBlobClient(d.store.naming.Prefix+pingBlob).GetProperties(ctx, nil)
	if isMissing(err) || d.willCreate(err) {
		return nil
	}
	return err
}
