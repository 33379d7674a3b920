package cosmoslease

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

// maxQueries bounds the requests for a page, which may be incomplete then. The
// service sends pages that are short or empty when it has looked at enough
// (learn.microsoft.com/azure/cosmos-db/nosql/query/pagination).
const maxQueries = 8

// queryPage is what a query has found, and where it goes on.
type queryPage struct {
	documents []snapshot
	next      string
}

// list asks for the documents whose names begin with a prefix. The prefix is a
// parameter, never part of the query's text. The order is the service's.
func (p *Provider) list(ctx context.Context, t *items, req abstractions.ListRequest) (abstractions.ListResult, error) {
	after, err := base64.RawURLEncoding.DecodeString(req.After)
	if err != nil || !headerText(after) {
		return abstractions.ListResult{}, &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
	}
	var page abstractions.ListResult
	next, limit := string(after), req.PageLimit()
	for range maxQueries {
		found, err := t.named(ctx, req.Prefix, next, limit-len(page.Records))
		if err != nil {
			return abstractions.ListResult{}, err
		}
		for _, s := range found.documents {
			if r := p.expiry.record(s.doc.Name, s); listed(r, req) {
				page.Records = append(page.Records, r)
			}
		}
		if next = found.next; next == "" || len(page.Records) >= limit {
			break
		}
	}
	page.Next = base64.RawURLEncoding.EncodeToString([]byte(next))
	return page, nil
}

// listed is false for what somebody else has put into the container, and for names
// that nobody ever held.
func listed(r abstractions.Record, req abstractions.ListRequest) bool {
	return strings.HasPrefix(r.Name, req.Prefix) && (r.Held || !req.HeldOnly && r.Token > 0)
}

// named asks for a page of documents by the prefix of their names.
func (t *items) named(ctx context.Context, prefix, after string, limit int) (queryPage, error) {
	return t.query(ctx, "SELECT * FROM c WHERE STARTSWITH(c.id, @id) AND STARTSWITH(c.name, @name)", after, limit,
		azcosmos.QueryParameter{Name: "@id", Value: t.naming.begin()}, azcosmos.QueryParameter{Name: "@name", Value: prefix})
}

// query asks for a page of documents of all partitions.
func (t *items) query(ctx context.Context, text, after string, limit int, parameters ...azcosmos.QueryParameter) (queryPage, error) {
	options := azcosmos.QueryOptions{
		SessionToken: t.sessions.all(), ConsistencyLevel: t.consistency,
		PageSizeHint: int32(limit), QueryParameters: parameters,
	}
	if after != "" {
		options.ContinuationToken = &after
	}
	response, err := t.container.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), &options).NextPage(ctx)
	if err != nil {
		if meaningOf(err) == missing { // not of an item
			return queryPage{}, fmt.Errorf("%w: %w", errNoContainer, err)
		}
		t.lost(err)
		return queryPage{}, failure(err)
	}
	t.note(response.RawResponse.Header)
	var page queryPage
	if response.ContinuationToken != nil {
		page.next = *response.ContinuationToken
	}
	page.documents, err = t.documents(response.Items, response.RawResponse.Header)
	return page, err
}

// documents reads those of the items that are this library's, and have the prefix
// of this provider and no other.
func (t *items) documents(items [][]byte, header http.Header) ([]snapshot, error) {
	found := make([]snapshot, 0, len(items))
	for _, item := range items {
		s, err := parse(item, "")
		if err != nil || abstractions.ValidateName(s.doc.Name) != nil || s.id != t.naming.id(s.doc.Name) {
			continue
		}
		if s, err = dated(s, header); err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

// headerText reports whether a continuation can be sent in a header.
func headerText(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// ping reads a document that no name has.
func (t *items) ping(ctx context.Context) error {
	id := t.naming.ping()
	_, err := t.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id, nil)
	if err == nil || meaningOf(err) == missing {
		return nil
	}
	return failure(err)
}
