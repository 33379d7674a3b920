package cosmostest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxVersions limits the number of versions that are kept of each item, for lagging replicas.
const maxVersions = 4

// item is the stored state of an ID, with the latest version last.
type item struct {
	versions []version
}

// version is the state of an item after a write. A deleted version has no fields.
type version struct {
	fields map[string]any // numbers are json.Number
	etag   string
	ts     int64 // in seconds since 1970
	lsn    int64
}

func (i *item) latest() version { return i.versions[len(i.versions)-1] }

// staleVersion returns the version on a lagging replica, which lacks the last writes but has
// the writes of the session.
func (i *item) staleVersion(lag int, seen int64) version {
	var v version // before the first write: no item
	for n, shown := range i.versions {
		if n < len(i.versions)-lag || shown.lsn <= seen {
			v = shown
		}
	}
	return v
}

// write stores a version and answers with that version. Without fields it deletes the
// item.
func (c *call) write(status int, id string, fields map[string]any) *reply {
	a := c.account
	a.lsn++
	v := version{fields: fields, lsn: a.lsn, ts: a.options.Now().Add(a.options.ReplicaSkew).Unix()}
	r := newReply(status, nil)
	if fields != nil {
		v.etag = fmt.Sprintf(`"%08x-0000-0d00-0000-%012x"`, v.lsn, v.ts)
		fields["_etag"], fields["_ts"], fields["_rid"] = v.etag, json.Number(strconv.FormatInt(v.ts, 10)), "rid"
		r.body = fields
		r.header.Set("etag", v.etag)
	}
	stored := c.container.items[c.key(id)]
	if stored == nil {
		stored = &item{}
		c.container.items[c.key(id)] = stored
	}
	stored.versions = append(stored.versions, v)
	stored.versions = stored.versions[max(0, len(stored.versions)-maxVersions):]
	return r
}

// isAlive reports whether a version can be read: it was not deleted, and its time to live
// is not over. The item's own time to live overrides the container's, and has no effect
// if the container's is not set.
func (c *call) isAlive(v version) bool {
	if v.fields == nil {
		return false
	}
	if c.container.properties.DefaultTTL == nil {
		return true
	}
	ttl := int64(*c.container.properties.DefaultTTL)
	if own, ok := integerOf(v.fields["ttl"]); ok {
		ttl = own
	}
	return ttl <= 0 || c.account.options.Now().Before(time.Unix(v.ts+ttl, 0))
}

// rangeID is the ID of the only partition that a container has here.
const rangeID = "0"

// inSession adds the session token, in the gateway's format:
// range:version#globalLSN.
func (c *call) inSession(r *reply) {
	r.header.Set("x-ms-session-token", fmt.Sprintf("%s:-1#%d", rangeID, c.account.lsn))
}

// sessionLSN returns the log sequence number of the request's session token. Tokens of
// several ranges are separated by commas.
func (c *call) sessionLSN() int64 {
	for token := range strings.SplitSeq(c.r.Header.Get("x-ms-session-token"), ",") {
		id, rest, _ := strings.Cut(token, ":")
		_, lsn, _ := strings.Cut(rest, "#")
		if n, err := strconv.ParseInt(lsn, 10, 64); err == nil && id == rangeID {
			return n
		}
	}
	return 0
}
