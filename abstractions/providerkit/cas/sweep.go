package cas

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// sweepPage is the number of items that a sweep lists at a time.
	sweepPage = 100
	// sweepEvery is the number of releases of a process from one sweep to the next.
	// The first release sweeps as well, since the process may end soon after.
	sweepEvery = 64
)

// sweepSome sweeps the records that follow a key, and the first records of the store
// if few follow: processes that release different names sweep at different places. The
// released lease is no longer trusted, so the release may wait for the sweep. Errors
// are ignored, since the next sweep may succeed.
func (s *Records) sweepSome(ctx context.Context, after string) {
	if s.ManualSweep || s.releases.Add(1)%sweepEvery != 1 {
		return
	}
	if _, last, err := s.SweepPage(ctx, after); err == nil && last == "" {
		_, _, _ = s.SweepPage(ctx, "")
	}
}

// SweepPage sweeps a page of records, and returns the place where it ends, "" at the end
// of the store. Each record is deleted on condition that it is unchanged, after its token
// has been counted in the floor.
func (s *Records) SweepPage(ctx context.Context, after string) (forgotten int, next string, err error) {
	if s.Retention == 0 || s.Retention == abstractions.Infinite {
		return 0, "", nil
	}
	items, next, err := s.Store.List(ctx, ListQuery{Idle: s.Retention, After: after, Limit: sweepPage})
	if err != nil {
		return 0, "", err
	}
	var floor int64
	idle := items[:0]
	for _, item := range items {
		found := s.parseListed(item)
		if found == nil || !found.record.Forgettable(s.Retention) {
			continue
		}
		floor, idle = max(floor, found.record.Token), append(idle, item)
	}
	if s.FloorKey != "" && floor > 0 {
		if err := s.raise(ctx, floor); err != nil {
			return 0, "", err
		}
	}
	for _, item := range idle {
		switch err := s.Store.Delete(ctx, item); {
		case err == nil:
			forgotten++
		case !errors.Is(err, ErrConflict):
			return forgotten, "", err
		}
	}
	return forgotten, next, nil
}
