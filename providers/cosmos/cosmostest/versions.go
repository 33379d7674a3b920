package cosmostest

import (
	"encoding/json"
	"fmt"
	"time"
)

// versionsKept is how much of an item's past a lagging replica may show.
const versionsKept = 4

// item is what is stored under an ID, the latest version last.
type item struct {
	versions []version
}

// version is what an item was after a write. A deleted one has no fields.
type version struct {
	fields map[string]json.RawMessage
	etag   string
	ts     int64 // in seconds since 1970
	lsn    int64
}

func (i *item) latest() version { return i.versions[len(i.versions)-1] }

// behind is what a replica shows that lacks the last writes, but for those that the
// session has seen.
func (i *item) behind(lag int, seen int64) version {
	var v version // where there was none yet
	for n, shown := range i.versions {
		if n < len(i.versions)-lag || shown.lsn <= seen {
			v = shown
		}
	}
	return v
}

// write stores a version. fields nil deletes the item.
func (c *call) write(found *container, key string, fields map[string]json.RawMessage) version {
	a := c.account
	a.lsn++
	v := version{fields: fields, lsn: a.lsn, ts: a.options.Now().Add(a.options.ReplicaSkew).Unix()}
	if fields != nil {
		v.etag = fmt.Sprintf(`"%08x-0000-0d00-0000-%012x"`, v.lsn, v.ts)
		v.fields["_etag"], _ = json.Marshal(v.etag)
		v.fields["_ts"], _ = json.Marshal(v.ts)
		v.fields["_rid"] = json.RawMessage(`"rid"`)
	}
	stored := found.items[key]
	if stored == nil {
		stored = &item{}
		found.items[key] = stored
	}
	stored.versions = append(stored.versions, v)
	if n := len(stored.versions); n > versionsKept {
		stored.versions = stored.versions[n-versionsKept:]
	}
	return v
}

// alive reports whether a version can be read: it was not deleted, and its time
// to live is not over.
func (c *call) alive(found *container, v version) bool {
	if v.fields == nil {
		return false
	}
	ttl, on := ttlOf(found, v)
	return !on || c.account.options.Now().Before(time.Unix(v.ts+int64(ttl), 0))
}

// ttlOf is the time to live of a version, in seconds: the item's own overrides
// the container's, and means nothing where that has none.
func ttlOf(found *container, v version) (seconds int, on bool) {
	if found.properties.DefaultTTL == nil {
		return 0, false
	}
	seconds = *found.properties.DefaultTTL
	if own, ok := v.fields["ttl"]; ok {
		if err := json.Unmarshal(own, &seconds); err != nil {
			return 0, false
		}
	}
	return seconds, seconds > 0
}
