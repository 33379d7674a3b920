package etagfence

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// Object is the result of reading an object or a document. The zero Object is an object that does
// not exist.
type Object struct {
	// ETag is the store's version of the object, or "" if it does not exist: a
	// quoted ETag, a Cosmos DB _etag, or another value on which the store can
	// make a write conditional, such as the generation number of Google Cloud
	// Storage.
	//
	// It has to change with every write. The ETag of Amazon S3 does not: it
	// "reflects changes only to the contents of an object, not its metadata"
	// (S3 API reference, type Object), so a write that changes only the token
	// in the metadata is not detected. On S3, keep token and write ID in the
	// content.
	ETag string
	// Token is the token of the object's last write, or 0 if the object has no token.
	Token int64
	// WriteID identifies the object's last write, or is "" if the object has no write ID.
	WriteID string
}

// Condition has the condition that a replacing write must send, and the values
// that it must store with the object. A write must do both: a write that checks
// the token but does not store it lets the next stale write pass. A Condition
// is never empty, so that a write can't overwrite a version that it has not
// read.
type Condition struct {
	IfMatch     string // the ETag that the object must still have; "" if it must not exist
	IfNoneMatch string // "*" if the object must not exist; else ""
	Token       int64  // to store with the object
	WriteID     string // to store with the object; unique to this write
}

// NewCondition returns the condition under which the holder of a token may replace
// the object that was read, or a *fencing.StaleError if the object carries a larger
// token. resource names the object in that error. If the store then refuses the
// write, there was another write: read again, and make a new condition. Replace
// does all this in a loop.
//
// As with all fencing, a new holder that only reads has not shown its token,
// and a former holder's write is admitted until the new holder has written. So
// write the token at the beginning of a lease, without changing the content,
// and compute from the content that was read for that write.
//
// Deleting an object loses its token, and a former holder may then recreate the
// object. While former holders may still be running, write an empty object
// instead.
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

// Header returns the condition as header fields of an HTTP request. It does not include Token and
// WriteID: see Metadata.
func (c Condition) Header() http.Header {
	if c.IfMatch != "" {
		return http.Header{"If-Match": {c.IfMatch}}
	}
	return http.Header{"If-None-Match": {"*"}}
}

func (o Object) validate() error {
	// "*" matches every object, and a weak ETag matches no object in an If-Match, which compares
	// strongly: RFC 9110, 8.8.3.2 and 13.1.1.
	if o.ETag == "*" || strings.HasPrefix(o.ETag, "W/") {
		return &leasing.InvalidError{Field: "Object.ETag", Value: o.ETag, Want: "a strong ETag, of one version"}
	}
	if o.ETag == "" && o != (Object{}) {
		return &leasing.InvalidError{Field: "Object.ETag", Value: "", Want: "the ETag of the object as read; an object that does not exist carries no token and no write ID"}
	}
	if o.Token < 0 || o.Token > leasing.MaxToken {
		return &leasing.InvalidError{Field: "Object.Token", Value: o.Token, Want: "0 for none, or a Lease.Token"}
	}
	return nil
}
