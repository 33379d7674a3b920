package cosmoslease

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// formatVersion is of the document.
	formatVersion = 1
	// endedKept is how many IDs that were released or broken a name remembers.
	endedKept = 8
	// neverDeleted as a document's time to live keeps it whatever the
	// container's default is.
	neverDeleted = -1
)

// document is what is stored of a name. Beside it the item has its id, the
// partition key, and what the service adds: _etag and _ts, the time of the last
// write in seconds.
type document struct {
	Version int     `json:"v"`
	Name    string  `json:"name"`
	Token   int64   `json:"token"` // the latest; 0 if nobody ever held the name
	Holder  *holder `json:"holder,omitempty"`
	// Ended are the last IDs that were released ("r:") or broken ("b:").
	Ended []string `json:"ended,omitempty"`
	// TimeToLive is in seconds from _ts on, or neverDeleted.
	TimeToLive int64 `json:"ttl"`
}

// holder is who holds a name, or held it until its lease ran out.
type holder struct {
	ID       string            `json:"id"`
	Owner    string            `json:"owner"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// TTL is in milliseconds, from _ts on; 0 for ever.
	TTL int64 `json:"ttl_ms"`
	// Ends, unless 0, is the end in milliseconds since 1970, of a document that
	// somebody else has written since the holder did.
	Ends int64 `json:"ends_ms,omitempty"`
	// Acquired is in milliseconds since 1970.
	Acquired int64 `json:"acquired_ms"`
	Breaking bool  `json:"breaking,omitempty"`
}

// system is what an item has beside the document.
type system struct {
	ID   string `json:"id"`
	ETag string `json:"_etag"`
	TS   int64  `json:"_ts"`
}

// snapshot is what a read shows of a name.
type snapshot struct {
	doc  *document // nil if there is none
	id   string
	etag string
	ts   time.Time // of the last write, in whole seconds
	now  time.Time // the Date of the reply, in whole seconds
}

// parse reads an item. A document that this code does not understand is left
// alone.
func parse(item []byte, name string) (snapshot, error) {
	var d document
	var s system
	if err := json.Unmarshal(item, &d); err != nil {
		return snapshot{}, fmt.Errorf("%w: the document of %q is none of this library's: %w", abstractions.ErrNotSetUp, name, err)
	}
	if err := json.Unmarshal(item, &s); err != nil || s.ETag == "" {
		return snapshot{}, fmt.Errorf("%w: the document of %q has no _etag and _ts", abstractions.ErrNotSetUp, name)
	}
	if d.Version != formatVersion {
		return snapshot{}, fmt.Errorf("%w: the document of %q has version %d, this code knows %d", abstractions.ErrNotSetUp, name, d.Version, formatVersion)
	}
	if name != "" && d.Name != name {
		return snapshot{}, fmt.Errorf("%w: the document of %q belongs to %q", abstractions.ErrNotSetUp, name, d.Name)
	}
	return snapshot{doc: &d, id: s.ID, etag: s.ETag, ts: time.Unix(s.TS, 0).UTC()}, nil
}

// clone copies what is changed in the copy; maps and the holder's metadata are
// never changed.
func (d *document) clone() *document {
	next := *d
	next.Ended = slices.Clone(d.Ended)
	if d.Holder != nil {
		h := *d.Holder
		next.Holder = &h
	}
	return &next
}

// end frees the name and remembers the ID of whoever held it.
func (d *document) end(kind endKind) {
	if d.Holder != nil {
		d.remember(kind, d.Holder.ID)
		d.Holder = nil
	}
}

// endKind is how an ID ended.
type endKind string

const (
	released endKind = "r:"
	broken   endKind = "b:"
)

// remember adds an ID that is refused from now on.
func (d *document) remember(kind endKind, id string) {
	d.Ended = append(d.Ended, string(kind)+id)
	if n := len(d.Ended); n > endedKept {
		d.Ended = d.Ended[n-endedKept:]
	}
}

// ended reports whether an ID is one of those, and how it ended.
func (d *document) ended(id string) (endKind, bool) {
	for _, text := range d.Ended {
		if kind, of, _ := strings.Cut(text, ":"); of == id {
			return endKind(kind + ":"), true
		}
	}
	return "", false
}

// newHolder is the holder that an acquire makes.
func newHolder(req abstractions.AcquireRequest, now time.Time) *holder {
	return &holder{
		ID: req.ID, Owner: req.Owner, Metadata: maps.Clone(req.Metadata),
		TTL: milliseconds(req.TTL), Acquired: now.UnixMilli(),
	}
}

func (h *holder) infinite() bool { return h.TTL == 0 }

// ttl is leasing.Infinite for an infinite lease.
func (h *holder) ttl() time.Duration {
	if h.infinite() {
		return abstractions.Infinite
	}
	return time.Duration(h.TTL) * time.Millisecond
}

// milliseconds rounds up; 0 is for ever.
func milliseconds(d time.Duration) int64 {
	if d == abstractions.Infinite {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
