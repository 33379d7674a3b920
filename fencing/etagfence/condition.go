package etagfence

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// Object is what a read of an object or a document showed. The zero Object is
// one that does not exist.
type Object struct {
	// ETag is the store's version of it, "" if it does not exist: a quoted ETag,
	// a Cosmos DB _etag, or what else the store can make a write conditional
	// on, such as the generation number of Google Cloud Storage.
	//
	// It has to change with every write. That of Amazon S3 does not: it
	// "reflects changes only to the contents of an object, not its metadata"
	// (S3 API reference, type Object), so a write that changes no more than the
	// token in the metadata goes unseen. Keep token and write ID in the content
	// there.
	ETag string
	// Token is the one it was last written with; 0 if it carries none.
	Token int64
	// WriteID names the write that made it; "" if it carries none.
	WriteID string
}

// Condition is what a write that replaces an object must send as its
// condition, and must store with the object. It must do both: a write that
// checks the token but does not store it lets the next stale one pass. A
// Condition is never empty, so that a write can't overwrite what it has not
// read.
type Condition struct {
	IfMatch     string // the ETag that the object must still have, or "" ...
	IfNoneMatch string // ... and then "*": the object must not exist
	Token       int64  // to store with the object
	WriteID     string // to store with the object; unique to this write
}

// NewCondition returns the condition under which a token may replace what was
// read, or a *fencing.StaleError if the object carries a larger token; resource names
// it there. If the store then refuses the write, there was another write:
// read again, and make a new condition. Replace does that.
//
// As with all fencing, a new holder that only reads has not shown its token,
// and a former holder's write is admitted until the new one has written. So
// write the token at the beginning of a lease, without changing the content,
// and compute from what that Replace has read.
//
// Deleting an object forgets its token, and a former holder may create it anew.
// Write an empty one instead, for as long as former holders may still be
// running.
func NewCondition(resource string, read Object, token int64) (Condition, error) {
	if err := read.validate(); err != nil {
		return Condition{}, err
	}
	if err := fencing.Check(resource, token, read.Token); err != nil {
		return Condition{}, err
	}
	condition := Condition{IfMatch: read.ETag, Token: token, WriteID: rand.Text()}
	if read.ETag == "" {
		condition.IfNoneMatch = "*"
	}
	return condition, nil
}

// Header returns the condition as fields of an HTTP request. Token and WriteID
// are not among them: see Metadata.
func (c Condition) Header() http.Header {
	if c.IfMatch != "" {
		return http.Header{"If-Match": {c.IfMatch}}
	}
	return http.Header{"If-None-Match": {"*"}}
}

func (o Object) validate() error {
	// "*" matches every object, and a weak ETag matches none in an If-Match,
	// which compares strongly: RFC 9110, 8.8.3.2 and 13.1.1.
	if o.ETag == "*" || strings.HasPrefix(o.ETag, "W/") {
		return &leasing.InvalidError{Field: "Object.ETag", Value: o.ETag, Want: "the ETag of one version, and a strong one"}
	}
	if o.ETag == "" && o != (Object{}) {
		return &leasing.InvalidError{Field: "Object.ETag", Value: "", Want: "the ETag of what was read; an object that does not exist carries no token and no write ID"}
	}
	if o.Token < 0 || o.Token > leasing.MaxToken {
		return &leasing.InvalidError{Field: "Object.Token", Value: o.Token, Want: "0 for none, or a Lease.Token"}
	}
	return nil
}
