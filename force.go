package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ForcedRelease is what came of one record of a ForceRelease.
type ForcedRelease struct {
	Record Record // as it was given
	Result BreakResult
	// Err is nil if the lease is broken, or had ended. It matches ErrStale if the name
	// has another holder by now, who was left alone.
	Err error
}

// HeldBy returns the records of the names that begin with prefix ("": all) and that an
// owner holds (Options.Owner of the manager, or Record.Owner), in the order of the
// names. It changes nothing: it is the dry run of ForceRelease. A name whose holder
// the backend could not confirm is left out.
//
// It reads all names with that prefix that are held: choose it with care where those
// are many. A name that is acquired meanwhile may be missing. Where the provider lists
// nothing the error matches ErrUnsupported.
func HeldBy(ctx context.Context, manager Manager, owner, prefix string) ([]Record, error) {
	if owner == "" {
		return nil, &InvalidError{Field: "owner", Value: owner, Want: "whose leases they are: Record.Owner"}
	}
	var held []Record
	for record, err := range manager.List(ctx, &ListOptions{Prefix: prefix, HeldOnly: true}) {
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

// ForceRelease breaks the leases that records show, as HeldBy, Manager.List or
// Manager.Inspect have returned them, one after the other with Manager.Break. A lease
// that has ended since is no error, and one that somebody else has by now is left
// alone: each is meant by its token. So options.IfToken must be 0, and records that
// name no token are refused before anything is sent.
//
// After an error it goes on with the next one, until ctx ends. What was not done for
// that reason is missing in the result; the error joins those of all records. Each
// Break is told of by itself, in events, log, metric and span, and is in the history
// of a provider that keeps one, in the same transaction. So a process that dies in the
// midst has told of what it did, and calling again does the rest.
func ForceRelease(ctx context.Context, manager Manager, records []Record, options *BreakOptions) ([]ForcedRelease, error) {
	each := orZero(options)
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
		if orBackground(ctx).Err() != nil {
			errs = append(errs, fmt.Errorf("%d of %d leases were left: %w", len(records)-len(done), len(records), context.Cause(ctx)))
			break
		}
		each.IfToken = record.Token
		result, err := manager.Break(ctx, record.Name, &each)
		done = append(done, ForcedRelease{Record: record, Result: result, Err: err})
		errs = append(errs, err)
	}
	return done, errors.Join(errs...)
}
