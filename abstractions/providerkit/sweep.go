package providerkit

import (
	"context"
	"errors"
)

const (
	// sweepPage is how many items a sweep lists at a time.
	sweepPage = 100
	// sweepEvery is after how many releases of a process the next one sweeps. The
	// first one does too: a process may end after it.
	sweepEvery = 64
)

// Sweep deletes all records of a provider that are Forgettable, and returns how
// many. Each page is a call of its own.
func Sweep(ctx context.Context, p *Provider, s *Records) (forgotten int, err error) {
	for after, more := "", true; more && err == nil; more = after != "" {
		err = Call(ctx, p, "sweep", "", func(ctx context.Context) error {
			n, last, err := s.sweep(ctx, after)
			forgotten, after = forgotten+n, last
			return err
		})
	}
	return forgotten, err
}

// sweepALittle looks at the records that follow a key, and at the first ones if those
// are few: processes that release different names sweep at different places. No
// trust runs while a release waits for it. Its errors are nobody's; the next may
// succeed.
func (s *Records) sweepALittle(ctx context.Context, after string) {
	if s.releases.Add(1)%sweepEvery != 1 {
		return
	}
	if _, last, err := s.sweep(ctx, after); err == nil && last == "" {
		_, _, _ = s.sweep(ctx, "")
	}
}

// sweep looks at the page of records that follows a key. last is its last key, or ""
// at the end. Each record is deleted on condition that it is still the same.
func (s *Records) sweep(ctx context.Context, after string) (forgotten int, last string, err error) {
	store, ok := s.Store.(ListingStore)
	if !ok || s.Retention == 0 {
		return 0, "", nil
	}
	items, err := store.List(ctx, after, sweepPage)
	if err != nil {
		return 0, "", err
	}
	for _, item := range items {
		found, err := s.parse(item, "")
		if err != nil || item.Version == "" || !found.record.Forgettable(s.Retention) {
			continue
		}
		switch err := store.Delete(ctx, item.Key, item.Version); {
		case err == nil:
			forgotten++
		case !errors.Is(err, ErrConflict):
			return forgotten, "", err
		}
	}
	if len(items) == sweepPage {
		last = items[sweepPage-1].Key
	}
	return forgotten, last, nil
}
