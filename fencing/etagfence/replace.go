package etagfence

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/cause"
)

// ErrPrecondition is the error that Replacement.Write returns, or wraps, when the store refused the
// write because its condition did not hold.
var ErrPrecondition = errors.New("precondition failed")

// maxRefusals bounds the refusals of a write while reads show no change. A lagging replica may
// cause such refusals for a while.
const maxRefusals = 10

// Replacement replaces one object, or document, under a token.
type Replacement struct {
	// Resource names the object in errors.
	Resource string
	// WriteID identifies this write. It is stored with the object, and Replace
	// returns nil when a read shows that ID with the token. By default each
	// Replace makes a new ID. To repeat a Replace of unknown outcome under the
	// same token without writing twice, set WriteID yourself. Different writes
	// must have different IDs.
	WriteID string
	// Read reads the object's version, token and write ID, and its content if
	// Write needs the content. For an object that does not exist it returns
	// the zero Object, and no error. Read must eventually see the latest
	// write, so it must not use a cache.
	Read func(ctx context.Context) (Object, error)
	// Write writes the object under the condition, and stores the condition's
	// Token and WriteID with the object. It returns ErrPrecondition for the
	// store's statuses that mean the condition did not hold. With IfMatch that
	// is 412 nearly everywhere, with IfNoneMatch often 409:
	//
	//	Azure Blob  412 ConditionNotMet, 409 BlobAlreadyExists
	//	Cosmos DB   412 for a replace, 409 for a create
	//	Amazon S3   412, and 409 ConditionalRequestConflict
	//	Google      412
	Write func(ctx context.Context, condition Condition) error
}

// Replace reads, checks the token, and writes on condition that there was no other
// write in between. After another write it starts over. A former holder is refused
// with a *fencing.StaleError when it reads the larger token, and the present holder
// gets through. When ctx ends, Replace returns its cause: pass the lease's context.
//
// If a client library resends a write after a lost reply, the condition no longer
// holds, because of the first attempt of the same write. The next read then shows
// the write ID, and Replace returns nil instead of writing twice. That works only
// if there has been no other write since: writers that share a token, such as
// goroutines of one holder, should take turns.
//
// Other errors from Read and Write are returned without a retry. After an error from Write, and
// after a *fencing.StaleError, the write may have been applied.
func Replace(ctx context.Context, token int64, r Replacement) error {
	if r.Read == nil || r.Write == nil {
		return &leasing.InvalidError{Field: "Replacement", Value: "nil", Want: "both Read and Write"}
	}
	if err := fencing.Check("", token, 0); err != nil {
		return err
	}
	id := cmp.Or(r.WriteID, rand.Text())
	var before Object
	for refusals := 0; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		read, err := r.Read(ctx)
		if err != nil {
			return cause.Join(ctx, err)
		}
		if read.ETag != "" && read.WriteID == id && read.Token == token {
			return nil
		}
		condition, err := NewCondition(r.Resource, read, token)
		if err != nil {
			return err
		}
		condition.WriteID = id
		if err = r.Write(ctx, condition); err == nil {
			return nil
		}
		if !errors.Is(err, ErrPrecondition) {
			return cause.Join(ctx, err)
		}
		if read != before {
			before, refusals = read, 0
		}
		if refusals++; refusals == maxRefusals {
			return fmt.Errorf("etagfence: %q was refused %d times while reads showed no change; does Read see the latest write, and Write send the condition as it is? %w",
				r.Resource, refusals, cause.Join(ctx, err))
		}
	}
}
