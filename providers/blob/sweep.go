package bloblease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// SweepResult says what a Sweep did.
type SweepResult struct {
	Seen    int    // names that were looked at
	Deleted int    // of these
	Next    string // for the next Sweep; "" after the last page
}

// Sweep deletes the blobs of names that nobody has, and that were last written
// longer than Options.Retention ago. It looks at a page of up to 1000 names, in
// one request, and deletes with one request each. Begin with after "", and go on
// with what it returns as Next until that is "". Several may sweep at a time.
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
func (p *Provider) Sweep(ctx context.Context, after string) (SweepResult, error) {
	done := make(chan SweepResult, 1) // the call may end before its goroutine does
	err := providerkit.Call(ctx, p.shell, "sweep", "", func(ctx context.Context) error {
		result, err := p.driver.sweep(ctx, after)
		done <- result
		return err
	})
	select {
	case result := <-done:
		return result, err
	default:
		return SweepResult{}, err
	}
}

func (d *driver) sweep(ctx context.Context, after string) (SweepResult, error) {
	if d.retention == Forever {
		return SweepResult{}, nil
	}
	found, next, now, err := d.store.page(ctx, "", after, 1000)
	if err != nil {
		return SweepResult{}, d.listFailure(err, after)
	}
	result := SweepResult{Seen: len(found), Next: next}
	for _, one := range found {
		if !one.view.idle(now, d.retention) {
			continue
		}
		switch err := d.store.remove(ctx, one.blob, one.view.etag); {
		case err == nil:
			result.Deleted++
		case hasCode(err, keptBlob...):
		case !isChanged(err):
			return result, err
		}
	}
	return result, nil
}

// keptBlob are the codes of a blob that somebody keeps from being deleted, by a
// snapshot or a policy: of that one alone.
var keptBlob = []bloberror.Code{
	bloberror.SnapshotsPresent, bloberror.BlobImmutableDueToPolicy,
}

// idle reports whether a name can be forgotten: nobody has it, and the tokens of
// later holders will be greater although nothing remembers this one.
func (v view) idle(now time.Time, retention time.Duration) bool {
	return !v.locked() && v.size == 0 && len(v.others) == 0 && !v.modified.IsZero() &&
		now.Sub(v.modified) > retention && abstractions.NextToken(0, now) > v.record.Token
}
