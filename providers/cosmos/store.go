package cosmoslease

import (
	"context"
	"encoding/base64"
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
)

// store is the container as a providerkit.Store: a document for each key,
// whose version is its ETag.
type store struct {
	connection *connection
	naming     providerkit.Naming
	sessions   sessions
	date       atomic.Int64 // the service's time in the latest reply, in seconds
}

// document is an item beside its partition key, where that has another path. The
// service adds _etag and _ts, the time of the last write in seconds.
type document struct {
	ID    string          `json:"id"`
	Lease json.RawMessage `json:"lease"`
	ETag  string          `json:"_etag"`
	TS    int64           `json:"_ts"`
}

// Get reads the document of a key.
func (s *store) Get(ctx context.Context, key string) (providerkit.Item, error) {
	return within(ctx, s, func(c *container) (providerkit.Item, error) {
		options := azcosmos.ItemOptions{SessionToken: s.sessions.all(), ConsistencyLevel: s.consistency()}
		response, err := c.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), key, &options)
		header, err := s.observe(response.Response, err)
		if err != nil && classOf(err) != missing {
			return providerkit.Item{}, readError{err}
		}
		now, dateless := dateOf(header)
		if err != nil || dateless != nil {
			return providerkit.Item{Key: key, Now: now}, dateless
		}
		item, err := itemOf(response.Value, now)
		if err == nil && item.Version == "" {
			err = fmt.Errorf("%w: the document %q has no _etag and _ts", abstractions.ErrNotSetUp, key)
		}
		return item, err
	})
}

// itemOf reads a document.
func itemOf(body []byte, now time.Time) (providerkit.Item, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return providerkit.Item{}, fmt.Errorf("%w: a document of another form: %w", abstractions.ErrNotSetUp, err)
	}
	return providerkit.Item{Key: d.ID, Data: d.Lease, Version: d.ETag, Written: time.Unix(d.TS, 0).UTC(), Now: now}, nil
}

// Put creates the document of a key, or replaces the version with an ETag.
func (s *store) Put(ctx context.Context, key string, data []byte, ifVersion string) (version string, err error) {
	return within(ctx, s, func(c *container) (string, error) {
		body, err := s.body(c, key, data)
		if err != nil {
			return "", err
		}
		id := azcosmos.NewPartitionKeyString(key)
		var response azcosmos.ItemResponse
		if ifVersion == "" {
			response, err = c.CreateItem(ctx, id, body, nil)
		} else {
			response, err = c.ReplaceItem(ctx, id, key, body, &azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&ifVersion)})
		}
		switch _, err = s.observe(response.Response, err); classOf(err) {
		case conflict:
			return "", providerkit.ErrConflict
		case missing:
			if ifVersion == "" { // a container that is gone may be told by 404 alone
				return "", fmt.Errorf("%w: %w", errNoContainer, err)
			}
			return "", providerkit.ErrConflict
		}
		return string(response.ETag), err
	})
}

// Delete deletes the version with an ETag.
func (s *store) Delete(ctx context.Context, key, ifVersion string) error {
	_, err := within(ctx, s, func(c *container) (none struct{}, err error) {
		options := azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&ifVersion)}
		response, err := c.DeleteItem(ctx, azcosmos.NewPartitionKeyString(key), key, &options)
		switch _, err = s.observe(response.Response, err); classOf(err) {
		case missing:
			return none, nil
		case conflict:
			return none, providerkit.ErrConflict
		}
		return none, err
	})
	return err
}

// body is a document as it is sent. Its partition key is its ID.
func (s *store) body(c *container, key string, data []byte) ([]byte, error) {
	ttl, err := s.timeToLive(data)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"id": key, "lease": json.RawMessage(data), "ttl": ttl}
	at, last := fields, len(c.path)-1
	for _, part := range c.path[:last] {
		inner := map[string]any{}
		at[part], at = inner, inner
	}
	at[c.path[last]] = key
	return json.Marshal(fields)
}

const (
	// neverDeleted as a time to live keeps a document whatever the container's is.
	neverDeleted = -1
	// maxTimeToLive: learn.microsoft.com/azure/cosmos-db/nosql/time-to-live.
	maxTimeToLive = 2147483647
)

// timeToLive is after how many seconds without a write the service may delete the
// document: never so few that a lease could depend on it, nor before the service's
// clock has passed the token, since the next one comes from that clock.
func (s *store) timeToLive(data []byte) (int64, error) {
	o := s.connection.options
	var lease struct {
		Token  int64  `json:"token"`
		Holder string `json:"id"`
		Lasts  int64  `json:"lasts_us"` // 0 for ever
	}
	if !o.ExpireDocuments {
		return neverDeleted, nil
	}
	if err := json.Unmarshal(data, &lease); err != nil {
		return 0, err
	}
	seconds := int64((o.Retention+time.Duration(lease.Lasts)*time.Microsecond-1)/time.Second) + 1
	seconds = max(seconds, lease.Token/time.Second.Microseconds()+1-s.date.Load())
	if lease.Holder != "" && lease.Lasts == 0 || seconds > maxTimeToLive {
		return neverDeleted, nil
	}
	return seconds, nil
}

// maxQueries bounds the requests for a page, which may be incomplete then. The
// service sends pages that are short or empty when it has looked at enough
// (learn.microsoft.com/azure/cosmos-db/nosql/query/pagination).
const maxQueries = 8

// List asks for documents by the prefix of their IDs, in the service's order. A place
// is the service's continuation, after the instant by which an idle document was
// written last.
func (s *store) List(ctx context.Context, q providerkit.ListQuery) (items []providerkit.Item, next string, err error) {
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
		var found []providerkit.Item
		found, continuation, err = s.query(ctx, s.naming.EncodePrefix(q.Prefix), before, continuation, q.Limit-len(items))
		if items = append(items, found...); err != nil || continuation == "" {
			return items, "", err
		}
		if len(items) >= q.Limit {
			break
		}
	}
	return items, base64.RawURLEncoding.EncodeToString(fmt.Append(nil, before, " ", continuation)), nil
}

// placeOf reads what List has returned.
func placeOf(after string) (before int64, continuation string, err error) {
	if after == "" {
		return 0, "", nil
	}
	place, err := base64.RawURLEncoding.DecodeString(after)
	first, continuation, found := strings.Cut(string(place), " ")
	before, err2 := strconv.ParseInt(first, 10, 64)
	inHeader := !strings.ContainsFunc(continuation, func(c rune) bool { return c < 0x20 || c > 0x7e })
	if err != nil || err2 != nil || !found || !inHeader {
		return 0, "", &abstractions.InvalidError{Field: "After", Value: after, Want: "Next of the page before"}
	}
	return before, continuation, nil
}

// query asks for a page of the documents whose IDs begin with a prefix, and that were
// written before an instant in seconds, unless that is 0. What comes from the caller
// is a parameter, never part of the query's text.
func (s *store) query(ctx context.Context, prefix string, before int64, continuation string, limit int) (items []providerkit.Item, next string, err error) {
	text := "SELECT * FROM c WHERE STARTSWITH(c.id, @id)"
	options := azcosmos.QueryOptions{
		SessionToken: s.sessions.all(), ConsistencyLevel: s.consistency(),
		PageSizeHint: int32(limit), QueryParameters: []azcosmos.QueryParameter{{Name: "@id", Value: prefix}},
	}
	if before != 0 {
		text += " AND c._ts < @before"
		options.QueryParameters = append(options.QueryParameters, azcosmos.QueryParameter{Name: "@before", Value: before})
	}
	if continuation != "" {
		options.ContinuationToken = &continuation
	}
	response, err := within(ctx, s, func(c *container) (azcosmos.QueryItemsResponse, error) {
		response, err := c.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), &options).NextPage(ctx)
		if _, err = s.observe(response.Response, err); classOf(err) == missing { // not of an item
			err = fmt.Errorf("%w: %w", errNoContainer, err)
		}
		return response, err
	})
	if err != nil {
		return nil, "", err
	}
	now, err := dateOf(response.RawResponse.Header)
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

// clock is the service's time, by a read of a document that no name has.
func (s *store) clock(ctx context.Context) (time.Time, error) {
	item, err := s.Get(ctx, s.naming.Prefix+"~~ping")
	return item.Now, err
}

// consistency is what reads ask for; nil for the account's own.
func (s *store) consistency() *azcosmos.ConsistencyLevel {
	level := azcosmos.ConsistencyLevel(s.connection.options.Consistency)
	if level == "" {
		return nil
	}
	return &level
}

// observe keeps the session token of a reply, also of a refusal, so that the next read
// sees what stood in the way. Tokens that the service does not honour are dropped: the
// next read goes without, and azcosmos has asked the write region already.
func (s *store) observe(response azcosmos.Response, err error) (http.Header, error) {
	header := http.Header{}
	status, answered := statusOf(err)
	if err == nil {
		header = response.RawResponse.Header
	} else if answered != nil {
		header = answered
	}
	s.sessions.keep(header.Get("x-ms-session-token"))
	if date, none := dateOf(header); none == nil {
		s.date.Store(date.Unix())
	}
	if status.code == http.StatusNotFound && status.sub != 0 {
		s.sessions.drop()
	}
	return header, brief(err)
}

// dateOf is the service's time of a reply, without which there is nothing to be said
// of a lease.
func dateOf(header http.Header) (time.Time, error) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a reply without a Date", abstractions.ErrUnavailable)
	}
	return date.UTC(), nil
}

// within makes a request once the container is known, and once more where there was
// none any more and one may be created.
func within[T any](ctx context.Context, s *store, do func(c *container) (T, error)) (value T, err error) {
	for range 2 {
		c, err := s.connection.container(ctx)
		if err != nil {
			return value, err
		}
		value, err = do(c)
		if classOf(err) == noContainer {
			err = fmt.Errorf("%w: %w", errNoContainer, err)
		}
		if !errors.Is(err, errNoContainer) {
			return value, err
		}
		s.connection.forget(c)
		s.sessions.drop()
		if o := s.connection.options; !o.Create {
			return value, o.setup("it is not there any more", err)
		}
	}
	// The service may take a moment to know of a new container.
	return value, fmt.Errorf("%w: the container was created and is not seen yet", abstractions.ErrUnavailable)
}
