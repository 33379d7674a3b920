package bloblease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Sweep deletes the blobs of names that nobody has, and that were last written
// longer than Options.Retention ago, and returns how many. It looks at 1000 names in
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
	return providerkit.Sweep(ctx, p.shell, p.driver.sweepPage)
}

func (d *driver) sweepPage(ctx context.Context, after string) (forgotten int, next string, err error) {
	if d.retention == abstractions.Infinite {
		return 0, "", nil
	}
	found, next, err := d.store.page(ctx, "", after, 1000)
	if err != nil {
		return 0, "", d.listFailure(err, after)
	}
	for _, v := range found {
		if !v.idle(d.retention) {
			continue
		}
		switch err := d.store.remove(ctx, v.record.Name, v.etag); {
		case err == nil:
			forgotten++
		case bloberror.HasCode(err, keptBlob...):
		case !isChanged(err):
			return forgotten, "", err
		}
	}
	return forgotten, next, nil
}

// keptBlob are the codes of a blob that somebody keeps from being deleted, by a
// snapshot or a policy: of that one alone.
var keptBlob = []bloberror.Code{
	bloberror.SnapshotsPresent, bloberror.BlobImmutableDueToPolicy,
}

// idle reports whether a name can be forgotten: nobody has it, and the tokens of
// later holders will be greater although nothing remembers this one.
func (v view) idle(retention time.Duration) bool {
	return !v.locked() && v.size == 0 && len(v.others) == 0 && !v.modified.IsZero() &&
		v.now.Sub(v.modified) > retention && abstractions.NextToken(0, v.now) > v.record.Token
}
