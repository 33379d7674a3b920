package cosmoslease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// sweepPage is how many documents a query of a sweep may find.
const sweepPage = 100

// Sweep forgets the names that have been free for longer than Options.Retention,
// and returns how many. It asks for the documents that nobody has written since,
// and deletes each on condition that it is still the same, until it is through or
// ctx ends. A document costs about as much to delete as to write.
//
// Nothing is swept without a call. Call it now and then where names are used once,
// from one process, for example under a lease; or set Options.ExpireDocuments.
//
// A name is forgotten only while its fencing token lies behind the service's clock,
// so that its next holder gets a greater one nevertheless.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	if p.retention == 0 {
		return 0, nil
	}
	cut, after := time.Time{}, ""
	for {
		page, err := call(ctx, p, func(ctx context.Context, t *items) (queryPage, error) {
			if cut.IsZero() {
				now, err := t.clock(ctx)
				if err != nil {
					return queryPage{}, err
				}
				cut = now.Add(-p.retention - p.expiry.grace())
			}
			return t.idle(ctx, cut, after)
		})
		if err != nil {
			return forgotten, err
		}
		for _, s := range page.documents {
			gone, err := p.sweep(ctx, s)
			if err != nil {
				return forgotten, err
			}
			if gone {
				forgotten++
			}
		}
		if after = page.next; after == "" {
			return forgotten, nil
		}
	}
}

// sweep deletes a document that is idle; not, if somebody has written it meanwhile.
func (p *Provider) sweep(ctx context.Context, s snapshot) (gone bool, err error) {
	if !p.idle(s) {
		return false, nil
	}
	return call(ctx, p, func(ctx context.Context, t *items) (bool, error) {
		refusal, err := t.remove(ctx, s.id, s.etag)
		return err == nil && refusal == unknown, err
	})
}

// idle reports whether a name has been free for long, and will get a higher token
// by the clock alone.
func (p *Provider) idle(s snapshot) bool {
	since := s.ts
	if s.doc.Holder != nil {
		if since = p.expiry.free(s); since.IsZero() {
			return false // infinite
		}
		if since.Before(s.ts) {
			since = s.ts
		}
	}
	past := s.now.Add(-p.retention - p.expiry.grace())
	return since.Before(past) && s.doc.Token < past.UnixMicro()
}

// clock is the service's time.
func (t *items) clock(ctx context.Context) (time.Time, error) {
	id := t.naming.ping()
	response, err := t.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id, nil)
	if err != nil && meaningOf(err) != missing {
		return time.Time{}, failure(err)
	}
	_, header := statusOf(err)
	if err == nil {
		header = response.RawResponse.Header
	}
	s, err := dated(snapshot{}, header)
	return s.now, err
}

// idle asks for documents that were written before an instant.
func (t *items) idle(ctx context.Context, before time.Time, after string) (queryPage, error) {
	return t.query(ctx, "SELECT * FROM c WHERE STARTSWITH(c.id, @id) AND c._ts < @before", after, sweepPage,
		azcosmos.QueryParameter{Name: "@id", Value: t.naming.begin()}, azcosmos.QueryParameter{Name: "@before", Value: before.Unix()})
}
