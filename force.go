package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ForcedRelease is the outcome of a ForceRelease for one record.
type ForcedRelease struct {
	Record Record // as passed to ForceRelease
	Result BreakResult
	// Err is nil if the lease was broken, or had already ended. It matches ErrStale if the name has a new holder, whose lease was
	// left alone.
	Err error
}

// HeldBy returns the records of the names that begin with prefix ("" for all)
// and are held by owner, sorted by name. owner is the Options.Owner of the
// holder's manager, as in Record.Owner. HeldBy only reads: it is the dry run of
// ForceRelease. It leaves out a name whose holder the backend could not
// confirm.
//
// It reads all held names with that prefix: choose a narrow prefix if there are many. A
// name that is acquired during the call may be missing. If the provider is not a Lister
// the error matches ErrUnsupported.
func HeldBy(ctx context.Context, manager *Manager, owner, prefix string) ([]Record, error) {
	if owner == "" {
		return nil, &InvalidError{Field: "owner", Value: owner, Want: "whose leases they are: Record.Owner"}
	}
	var held []Record
	for record, err := range manager.List(ctx, ListOptions{Prefix: prefix, HeldOnly: true}) {
		if err != nil {
			return nil, err
		}
		if record.Owner == owner && !record.Unconfirmed {
			held = append(held, record)
		}
	}
	slices.SortFunc(held, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(held, func(a, b Record) bool { return a.Name == b.Name }), nil
}

// ForceRelease breaks the leases in records, one after the other, with Manager.Break. The
// records come from HeldBy, Manager.List or Manager.Inspect. Each lease is identified by
// its record's token: it is not an error if that lease has ended since, and a newer
// holder of the name is left alone. So options.IfToken must be 0, and a record without a
// token makes the call fail before anything is sent.
//
// After an error ForceRelease continues with the next record, until ctx ends; the result
// leaves out the records that it did not reach. The error joins the errors for all records.
// Each Break is reported separately in events, log, metrics and spans. A provider that
// keeps a history records each break in the transaction of that break. So if the process
// dies midway, its breaks are on record, and a second call breaks the rest.
func ForceRelease(ctx context.Context, manager *Manager, records []Record, options BreakOptions) ([]ForcedRelease, error) {
	each := options
	if each.IfToken != 0 {
		return nil, &InvalidError{Field: "BreakOptions.IfToken", Value: each.IfToken, Want: "0: each record has its own"}
	}
	for i, record := range records {
		if record.Token <= 0 {
			return nil, &InvalidError{Field: fmt.Sprintf("records[%d].Token", i), Value: record.Token, Want: "the token of the lease that is meant"}
		}
	}
	var done []ForcedRelease
	var errs []error
	for _, record := range records {
		if ctx != nil && ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%d of %d leases were left: %w", len(records)-len(done), len(records), context.Cause(ctx)))
			break
		}
		each.IfToken = record.Token
		result, err := manager.Break(ctx, record.Name, each)
		done = append(done, ForcedRelease{Record: record, Result: result, Err: err})
		errs = append(errs, err)
	}
	return done, errors.Join(errs...)
}
