package cosmoslease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

// items are the documents of a container. Each method makes one request.
type items struct {
	client      *azcosmos.Client
	container   *azcosmos.ContainerClient
	path        []string // of the partition key: its value is the document's ID
	naming      naming
	consistency *azcosmos.ConsistencyLevel
	keptFor     time.Duration // beyond the lease; 0 keeps documents for ever
	sessions    *sessions
}

// read returns what there is of a name.
func (t *items) read(ctx context.Context, name string) (snapshot, error) {
	id := t.naming.id(name)
	response, err := t.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id,
		&azcosmos.ItemOptions{SessionToken: t.sessions.all(), ConsistencyLevel: t.consistency})
	if err != nil {
		return t.nothing(err)
	}
	t.note(response.RawResponse.Header)
	s, err := parse(response.Value, name)
	if err != nil {
		return s, err
	}
	return dated(s, response.RawResponse.Header)
}

// dated adds the service's time, without which there is nothing to be said of a
// lease.
func dated(s snapshot, header http.Header) (snapshot, error) {
	if s.now = dateOf(header); s.now.IsZero() {
		return s, fmt.Errorf("%w: a reply without a Date", abstractions.ErrUnavailable)
	}
	return s, nil
}

// nothing is a read that found no document, or failed.
func (t *items) nothing(err error) (snapshot, error) {
	_, header := statusOf(err)
	t.note(header)
	if meaningOf(err) == missing {
		return dated(snapshot{}, header)
	}
	t.lost(err)
	return snapshot{}, failure(err)
}

// lost drops session tokens that the service does not honour. The next read goes
// without one; azcosmos has asked the write region already.
func (t *items) lost(err error) {
	if s, _ := statusOf(err); s.code == http.StatusNotFound && s.sub != 0 {
		t.sessions.drop()
	}
}

// write creates the document of a name, or replaces the version with an ETag. The
// meaning is missing or conflict where that can't be, beside which there is no
// error: both are answers.
func (t *items) write(ctx context.Context, d *document, etag string) (written string, m meaning, err error) {
	id := t.naming.id(d.Name)
	body, err := t.marshal(id, d)
	if err != nil {
		return "", unknown, err
	}
	key := azcosmos.NewPartitionKeyString(id)
	var response azcosmos.ItemResponse
	if etag == "" {
		response, err = t.container.CreateItem(ctx, key, body, &azcosmos.ItemOptions{})
	} else {
		response, err = t.container.ReplaceItem(ctx, key, id, body, &azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&etag)})
	}
	if err != nil {
		m, err = t.refusal(err)
		return "", m, err
	}
	t.note(response.RawResponse.Header)
	return string(response.ETag), unknown, nil
}

// remove deletes the version with an ETag.
func (t *items) remove(ctx context.Context, id, etag string) (meaning, error) {
	response, err := t.container.DeleteItem(ctx, azcosmos.NewPartitionKeyString(id), id, &azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&etag)})
	if err != nil {
		return t.refusal(err)
	}
	t.note(response.RawResponse.Header)
	return unknown, nil
}

// refusal tells the answers to a write from its failures. The session token of an
// answer lets the next read see what stood in the way. A create that finds no
// container is told so by 404 alone.
func (t *items) refusal(err error) (meaning, error) {
	m := meaningOf(err)
	_, header := statusOf(err)
	t.note(header)
	if m == missing || m == conflict {
		return m, nil
	}
	t.lost(err)
	return unknown, failure(err)
}

// note keeps the session token of a reply.
func (t *items) note(header http.Header) { t.sessions.keep(header.Get("x-ms-session-token")) }

// dateOf is the service's time of a reply; zero if it does not tell.
func dateOf(header http.Header) time.Time {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return date.UTC()
}

// marshal makes an item of a document.
func (t *items) marshal(id string, d *document) ([]byte, error) {
	next := *d
	next.TimeToLive = t.timeToLive(d)
	text, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	extra := map[string]any{"id": id}
	at := extra
	for i, part := range t.path {
		if i == len(t.path)-1 {
			at[part] = id
			break
		}
		inner := map[string]any{}
		at[part], at = inner, inner
	}
	head, err := json.Marshal(extra)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), text[1:]...), nil
}

// timeToLive is after how many seconds without a write the service may delete the
// document. It is never so short that a lease could depend on it.
func (t *items) timeToLive(d *document) int64 {
	if t.keptFor == 0 || d.Holder != nil && d.Holder.infinite() {
		return neverDeleted
	}
	keep := t.keptFor
	if d.Holder != nil {
		keep += d.Holder.ttl()
	}
	seconds := int64((keep-1)/time.Second) + 1
	if seconds > maxTimeToLive {
		return neverDeleted
	}
	return seconds
}

// maxTimeToLive: learn.microsoft.com/azure/cosmos-db/nosql/time-to-live.
const maxTimeToLive = 2147483647

// reserved are the fields that a document has anyway.
var reserved = []string{"id", "v", "name", "token", "holder", "ended", "ttl"}

// parsePath takes a partition key path apart, and refuses those that the document
// has no room for.
func parsePath(path string) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\"\\") {
		return nil, fmt.Errorf("%q is no path", path)
	}
	for i, part := range parts {
		if part == "" || i == 0 && len(parts) > 1 && part == "id" {
			return nil, fmt.Errorf("%q is no path", path)
		}
	}
	if path == "/id" {
		return parts, nil
	}
	for _, field := range reserved {
		if parts[0] == field {
			return nil, fmt.Errorf("the documents' own field %q", field)
		}
	}
	if strings.HasPrefix(parts[0], "_") {
		return nil, fmt.Errorf("%q, which is the service's own", path)
	}
	return parts, nil
}
