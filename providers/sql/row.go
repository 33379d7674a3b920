package sqllease

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// row is what the table says of one name, together with the moment at which it
// was read. The zero version means that there is no row.
type row struct {
	name       string
	version    int64  // rises with every change: max(version+1, the clock in microseconds)
	token      int64  // of the latest holder; 0 if the name was never held
	id         string // of the holder; "" once it left
	owner      string
	ttl        time.Duration
	metadata   string // a JSON object
	acquiredAt time.Time
	breaking   bool // broken, and running out
	ended      ended

	now  time.Time     // the database's clock when the row was read
	left time.Duration // until the lease ends by that clock; Infinite if it doesn't
	ends time.Time     // what to show as the end, if not just now+left
	// unsettled says that the deadline was written by a clock that has been
	// set back since, or that stopped with an earlier boot of the host. Left is
	// then no more than the TTL; the next contender writes it down.
	unsettled bool
}

// held reports whether the name is taken.
func (r *row) held() bool { return r.id != "" && r.left > 0 }

// ranOut reports whether the row still names a holder whose time is over.
func (r *row) ranOut() bool { return r.id != "" && r.left <= 0 }

// setLeft bounds what a deadline leaves. A lease can't have more left than its
// TTL, unless the clock went back: then its holder, who renewed before now,
// trusts it for at most one TTL from now.
func (r *row) setLeft(left time.Duration) {
	r.left = left
	if left > r.ttl {
		r.left, r.unsettled = r.ttl, true
	}
}

// record shows the row to others.
func (r *row) record() abstractions.Record {
	record := abstractions.Record{Name: r.name, Token: r.token, Now: r.now}
	if !r.held() {
		return record
	}
	record.Held = true
	record.ID, record.Owner, record.TTL = r.id, r.owner, r.ttl
	record.Metadata = decodeMetadata(r.metadata)
	record.AcquiredAt, record.Breaking = r.acquiredAt, r.breaking
	record.ExpiresAt = r.expiresAt()
	return record
}

// expiresAt is zero for an infinite lease.
func (r *row) expiresAt() time.Time {
	switch {
	case r.left == abstractions.Infinite:
		return time.Time{}
	case r.unsettled || r.ends.IsZero():
		return r.now.Add(r.left)
	default:
		return r.ends
	}
}

// remembered is how many IDs that were released or broken a name refuses from
// then on. The contract asks for one; more help against requests that were
// delayed while the name went from hand to hand.
const remembered = 8

// brokenMark follows the ID of a claim that was broken. IDs consist of letters,
// digits and hyphens.
const brokenMark = "!"

// ended are the IDs that were released or broken, the latest first.
type ended []string

func parseEnded(text string) ended { return strings.Fields(text) }

func (e ended) String() string { return strings.Join(e, " ") }

// find tells whether the claim has ended, and whether it was broken.
func (e ended) find(id string) (known, broken bool) {
	broken = slices.Contains(e, id+brokenMark)
	return broken || slices.Contains(e, id), broken
}

// add returns the list with one more ID.
func (e ended) add(id string, broken bool) ended {
	if known, _ := e.find(id); known {
		return e
	}
	if broken {
		id += brokenMark
	}
	return append(ended{id}, e[:min(len(e), remembered-1)]...)
}

func encodeMetadata(metadata map[string]string) string {
	if len(metadata) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(metadata) // strings always encode
	return string(text)
}

// decodeMetadata returns nil for none, and for what somebody else wrote there.
func decodeMetadata(text string) map[string]string {
	if text == "{}" {
		return nil
	}
	var metadata map[string]string
	if json.Unmarshal([]byte(text), &metadata) != nil || len(metadata) == 0 {
		return nil
	}
	return metadata
}

// micros is d in the unit of both databases, rounded up: never early. nil
// stands for an infinite lease.
func micros(d time.Duration) *int64 {
	if d == abstractions.Infinite {
		return nil
	}
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return &us
}

func fromMicros(us *int64) time.Duration {
	if us == nil || *us > int64(abstractions.Infinite/time.Microsecond) {
		return abstractions.Infinite
	}
	return time.Duration(*us) * time.Microsecond
}
