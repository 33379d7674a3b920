package sqllease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// sweepBatch is the number of rows that one sweeping transaction checks.
const sweepBatch = 500

// sweepEvery is the number of releases, on average, after which a batch is swept, and the number of
// new entries after which the history is swept. A batch is larger, so that sweeping keeps up.
const sweepEvery = 250

// Sweep deletes the names that have been free and unused for longer than
// Options.Retention, and history older than Options.HistoryRetention. It returns the
// number of names deleted. It goes through the tables once, in short transactions,
// and stops when ctx ends.
//
// Providers also sweep automatically. On average, one release in 250 checks 500 names, from where
// the previous sweep of any process stopped, and one new history entry in 250 checks the 500 oldest
// entries. That is enough for applications that release what they acquire. Applications that let
// leases run out should call Sweep regularly.
//
// A name is deleted only if its fencing token is behind the database's clock. That clock
// may be set back later. So the highest token that was deleted stays in the table, in the
// row of the empty name, and new names get greater tokens.
func (p *Provider) Sweep(ctx context.Context) (forgotten int, err error) {
	forgotten, err = providerkit.Sweep(ctx, p.shell, p.driver.sweepNames)
	if err == nil {
		_, err = providerkit.Sweep(ctx, p.shell, p.driver.sweepHistory)
	}
	return forgotten, err
}

func (d *driver) sweepNames(ctx context.Context, after string) (forgotten int, next string, err error) {
	if d.Retention == 0 {
		return 0, "", nil
	}
	if err := d.check(ctx); err != nil {
		return 0, "", err
	}
	return d.backend.Sweep(ctx, &after, sweepBatch, d.Retention)
}

// sweepHistory always begins with the oldest entries.
func (d *driver) sweepHistory(ctx context.Context, _ string) (forgotten int, next string, err error) {
	if d.Record.Retention == 0 {
		return 0, "", nil
	}
	if err := d.check(ctx); err != nil {
		return 0, "", err
	}
	if forgotten, err = d.backend.SweepHistory(ctx, sweepBatch); forgotten == sweepBatch {
		next = "more"
	}
	return forgotten, next, err
}

// trimSome is called by every request that may have written entries to the history; written is their number. A
// few of the calls, chosen at random, delete entries that are too old. On average they check more entries than
// are written, so that the history does not outgrow its retention, even with several writers.
func (d *driver) trimSome(ctx context.Context, written int) {
	if d.Record.Retention > 0 && d.Random(sweepEvery) < written {
		_, _ = d.backend.SweepHistory(ctx, max(sweepBatch, 2*written))
	}
}

// sweepSome is called by every release. A few of the calls, chosen at random, sweep, so that
// processes that release once and exit also take part. Delaying the release does no harm, since the
// lease is no longer trusted. Errors are dropped; a later sweep may succeed.
func (d *driver) sweepSome(ctx context.Context) {
	if d.Retention > 0 && d.Random(sweepEvery) == 0 {
		_, _, _ = d.backend.Sweep(ctx, nil, sweepBatch, d.Retention)
	}
}
