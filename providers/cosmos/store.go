package cosmoslease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// store implements cas.Store over the container. It has a document for each key, whose
// version is its ETag.
type store struct {
	connection *connection
	naming     cas.Naming
	sessions   sessions
	date       atomic.Int64 // the service's time in the latest reply, in seconds
}

// document is an item without its partition key, whose path differs between containers. The
// service adds _etag and _ts, the time of the last write in seconds.
type document struct {
	ID    string          `json:"id"`
	Lease json.RawMessage `json:"lease"`
	ETag  string          `json:"_etag"`
	TS    int64           `json:"_ts"`
}

// Get reads the document of a key.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	var response azcosmos.ItemResponse
	header, err := s.withContainer(ctx, func(c *container) (_ azcosmos.Response, err error) {
		options := azcosmos.ItemOptions{SessionToken: s.sessions.header(), ConsistencyLevel: s.consistency()}
		response, err = c.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), key, &options)
		return response.Response, err
	})
	if err != nil && (classOf(err) != missing || errors.Is(err, abstractions.ErrNotSetUp)) {
		return cas.Item{}, readError{err}
	}
	now, dateless := httpguard.Date(header)
	if err != nil || dateless != nil {
		return cas.Item{Key: key, Now: now}, dateless
	}
	item, err := itemOf(response.Value, now)
	if err == nil && item.Version == "" {
		err = fmt.Errorf("%w: the document %q has no _etag and _ts", abstractions.ErrNotSetUp, key)
	}
	return item, err
}

// itemOf reads a document.
func itemOf(body []byte, now time.Time) (cas.Item, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return cas.Item{}, fmt.Errorf("%w: a document of another form: %w", abstractions.ErrNotSetUp, err)
	}
	return cas.Item{Key: d.ID, Data: d.Lease, Version: d.ETag, Written: time.Unix(d.TS, 0).UTC(), Now: now}, nil
}

// Put creates the document of a key, or replaces the document if it still has the ETag
// that was read.
func (s *store) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	item := cas.Item{Key: old.Key, Data: data}
	_, err := s.withContainer(ctx, func(c *container) (azcosmos.Response, error) {
		fields := map[string]any{"id": old.Key, "lease": json.RawMessage(data), "ttl": s.timeToLive(r)}
		body, err := json.Marshal(c.withPartitionKey(fields, old.Key))
		if err != nil {
			return azcosmos.Response{}, err
		}
		id := azcosmos.NewPartitionKeyString(old.Key)
		var response azcosmos.ItemResponse
		if old.Version == "" {
			response, err = c.CreateItem(ctx, id, body, nil)
			err = containerError(err)
		} else {
			response, err = c.ReplaceItem(ctx, id, old.Key, body, &azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&old.Version)})
		}
		item.Version = string(response.ETag)
		return response.Response, err
	})
	return item, refusal(err)
}

// Delete deletes a document if it still has the ETag that was read.
func (s *store) Delete(ctx context.Context, item cas.Item) error {
	_, err := s.withContainer(ctx, func(c *container) (azcosmos.Response, error) {
		options := azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&item.Version)}
		response, err := c.DeleteItem(ctx, azcosmos.NewPartitionKeyString(item.Key), item.Key, &options)
		return response.Response, err
	})
	return refusal(err)
}

const (
	// neverDeleted as a time to live keeps a document, whatever the container's
	// time to live.
	neverDeleted = -1
	// maxTimeToLive is the service's limit:
	// learn.microsoft.com/azure/cosmos-db/nosql/time-to-live.
	maxTimeToLive = 2147483647
)

// timeToLive returns the seconds without a write after which the service may delete the
// document. The document is never deleted while a lease can depend on it, or before the
// service's clock has passed the token, since the next token comes from that clock.
func (s *store) timeToLive(r *providerkit.Record) int64 {
	o := s.connection.options
	if !o.ExpireDocuments || r.Left == abstractions.Infinite {
		return neverDeleted
	}
	seconds := int64((o.Retention+max(0, r.Left)-1)/time.Second) + 1
	seconds = max(seconds, r.Token/time.Second.Microseconds()+1-s.date.Load())
	if seconds > maxTimeToLive {
		return neverDeleted
	}
	return seconds
}

// maxQueries limits the number of queries in a List: pages may be short, or empty, before
// the end.
const maxQueries = 10

// List queries documents until the page is full. A page begins at a place: the time before which
// the listed documents were last written, 0 for any time, and the service's continuation.
func (s *store) List(ctx context.Context, q cas.ListQuery) (items []cas.Item, next string, err error) {
	before, continuation, err := placeOf(q.After)
	if err != nil {
		return nil, "", err
	}
	if q.Idle > 0 && q.After == "" {
		now, err := s.clock(ctx)
		if err != nil {
			return nil, "", err
		}
		before = now.Add(-q.Idle).Unix()
	}
	for range maxQueries {
		var found []cas.Item
		found, continuation, err = s.query(ctx, s.naming.EncodePrefix(q.Prefix), before, continuation, q.Limit-len(items))
		if items = append(items, found...); err != nil || continuation == "" {
			return items, "", err
		}
		if len(items) >= q.Limit {
			break
		}
	}
	return items, fmt.Sprint(before, " ", continuation), nil
}

// placeOf parses a place that List has returned.
func placeOf(after string) (before int64, continuation string, err error) {
	if after == "" {
		return 0, "", nil
	}
	first, continuation, found := strings.Cut(after, " ")
	before, err = strconv.ParseInt(first, 10, 64)
	inHeader := !strings.ContainsFunc(continuation, func(c rune) bool { return c < 0x20 || c > 0x7e })
	if err != nil || !found || !inHeader {
		return 0, "", &abstractions.InvalidError{Field: "After", Value: after, Want: "Next of the page before"}
	}
	return before, continuation, nil
}

// query returns a page of the documents whose IDs begin with a prefix. If before is not 0,
// it returns only documents that were last written before that second. The caller's values
// are parameters, never part of the query's text.
func (s *store) query(ctx context.Context, prefix string, before int64, continuation string, limit int) (items []cas.Item, next string, err error) {
	text := "SELECT * FROM c WHERE STARTSWITH(c.id, @id)"
	options := azcosmos.QueryOptions{
		SessionToken: s.sessions.header(), ConsistencyLevel: s.consistency(),
		PageSizeHint: int32(limit), QueryParameters: []azcosmos.QueryParameter{{Name: "@id", Value: prefix}},
	}
	if before != 0 {
		text += " AND c._ts < @before"
		options.QueryParameters = append(options.QueryParameters, azcosmos.QueryParameter{Name: "@before", Value: before})
	}
	if continuation != "" {
		options.ContinuationToken = &continuation
	}
	var response azcosmos.QueryItemsResponse
	header, err := s.withContainer(ctx, func(c *container) (_ azcosmos.Response, err error) {
		response, err = c.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), &options).NextPage(ctx)
		return response.Response, containerError(err)
	})
	if err != nil {
		return nil, "", err
	}
	now, err := httpguard.Date(header)
	for _, body := range response.Items {
		if item, odd := itemOf(body, now); odd == nil {
			items = append(items, item)
		}
	}
	if response.ContinuationToken != nil {
		next = *response.ContinuationToken
	}
	return items, next, err
}

// clock returns the service's time, from a read of a document that belongs to no name.
func (s *store) clock(ctx context.Context) (time.Time, error) {
	item, err := s.Get(ctx, s.naming.Prefix+"~~ping")
	return item.Now, err
}

// consistency returns the consistency level of reads; nil for the account's own level.
func (s *store) consistency() *azcosmos.ConsistencyLevel {
	level := azcosmos.ConsistencyLevel(s.connection.options.Consistency)
	if level == "" {
		return nil
	}
	return &level
}

// withContainer makes a request once the container is known. If the container is gone and may be
// created, withContainer makes the request once more.
func (s *store) withContainer(ctx context.Context, request func(c *container) (azcosmos.Response, error)) (header http.Header, err error) {
	for range 2 {
		c, err := s.connection.container(ctx)
		if err != nil {
			return nil, err
		}
		response, err := request(c)
		if classOf(err) == noContainer {
			err = fmt.Errorf("%w: %w", errNoContainer, err)
		}
		header, err = s.keepSession(response, err)
		if !errors.Is(err, errNoContainer) {
			return header, err
		}
		s.connection.forget(c)
		s.sessions.drop()
		if o := s.connection.options; !o.Create {
			return nil, o.setup("the container was deleted", err)
		}
	}
	// A new container may not be visible at once.
	return nil, fmt.Errorf("%w: the container was created and is not visible yet", abstractions.ErrUnavailable)
}

// keepSession keeps the session token of a reply, even of a refusal, so that the next read
// sees the write that caused the refusal. Tokens that the service does not honour are
// dropped: the next read sends no tokens, and azcosmos has already tried the write
// region.
func (s *store) keepSession(response azcosmos.Response, err error) (http.Header, error) {
	status, header := statusOf(err)
	if response.RawResponse != nil {
		header = response.RawResponse.Header
	}
	s.sessions.add(header.Get("x-ms-session-token"))
	if date, none := httpguard.Date(header); none == nil {
		s.date.Store(date.Unix())
	}
	if status.code == http.StatusNotFound && status.sub != 0 {
		s.sessions.drop()
	}
	return header, shortError(err)
}
