package etagfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/cause"
)

// ErrPrecondition is what Replacement.Write returns, or wraps, when the store
// refused the write because its condition did not hold.
var ErrPrecondition = errors.New("precondition failed")

// mostRefusals bounds how often a write may be refused though a read shows
// nothing new. A read of a lagging replica may do that for a while.
const mostRefusals = 10

// Replacement replaces one object, or document, under a token.
type Replacement struct {
	// Resource names the object in errors.
	Resource string
	// WriteID names this write: it is stored with the object, and Replace is
	// over when a read shows it beside the token. By default each Replace makes
	// a new one. Name one yourself to repeat a Replace whose outcome is unknown,
	// under the same token, without writing twice; another write must have
	// another.
	WriteID string
	// Read reads the object's version, token and write ID, and its content if
	// Write needs it. An object that does not exist is no error but a zero
	// Object. It must see the latest write sooner or later: no cache.
	Read func(ctx context.Context) (Object, error)
	// Write writes the object under the condition, and stores the condition's
	// Token and WriteID with it. It returns ErrPrecondition for the store's
	// statuses that mean the condition did not hold. With IfMatch that is 412
	// nearly everywhere, with IfNoneMatch often 409:
	//
	//	Azure Blob  412 ConditionNotMet, 409 BlobAlreadyExists
	//	Cosmos DB   412 for a replace, 409 for a create
	//	Amazon S3   412, and 409 ConditionalRequestConflict
	//	Google      412
	Write func(ctx context.Context, condition Condition) error
}

// Replace reads, checks the token, and writes under the condition that nobody
// else has written in between; if somebody has, it begins again. A former
// holder is refused with a *fencing.StaleError in the turn in which it sees the
// larger token, a present one gets through. It ends with ctx, with its cause:
// pass the lease's.
//
// A client library that sends a write again after a lost reply is told that the
// condition does not hold, by its own first write. The next read then shows the
// write ID, and Replace returns nil instead of writing twice. That works for as
// long as nobody has written since: writers that share a token, goroutines of
// one holder, should take turns.
//
// Errors of Read and Write are returned, and not tried again. After one of
// Write, and after a *fencing.StaleError, the write may have been applied.
func Replace(ctx context.Context, token int64, r Replacement) error {
	if err := r.validate(token); err != nil {
		return err
	}
	id := r.WriteID
	if id == "" {
		id = rand.Text()
	}
	var before Object
	for refusals := 0; ; {
		read, done, err := r.turn(ctx, token, id)
		if done || !errors.Is(err, ErrPrecondition) {
			return err
		}
		if read != before {
			before, refusals = read, 0
		}
		if refusals++; refusals == mostRefusals {
			return fmt.Errorf("etagfence: %q was refused %d times while reads showed no change; does Read see the latest write, and Write send the condition as it is? %w",
				r.Resource, refusals, err)
		}
	}
}

// turn reads and writes once. done says that err is final, whatever it is.
func (r Replacement) turn(ctx context.Context, token int64, id string) (read Object, done bool, err error) {
	if ctx.Err() != nil {
		return read, true, context.Cause(ctx)
	}
	read, err = r.Read(ctx)
	if err != nil {
		return read, true, cause.Join(ctx, err)
	}
	if read.ETag != "" && read.WriteID == id && read.Token == token {
		return read, true, nil
	}
	condition, err := NewCondition(r.Resource, read, token)
	if err != nil {
		return read, true, err
	}
	condition.WriteID = id
	if err := r.Write(ctx, condition); err != nil {
		return read, false, cause.Join(ctx, err)
	}
	return read, true, nil
}

func (r Replacement) validate(token int64) error {
	if r.Read == nil || r.Write == nil {
		return &leasing.InvalidError{Field: "Replacement", Value: "nil", Want: "both Read and Write"}
	}
	return fencing.Check("", token, 0)
}
