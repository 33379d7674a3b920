package sqllease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// sweepBatch is how many rows one sweeping transaction looks at.
const sweepBatch = 500

// sweepEvery is after how many releases, on average, a batch is swept, and after
// how many new entries the history is. A batch is more than those can leave behind.
const sweepEvery = 250

// Swept counts what a Sweep deleted.
type Swept struct {
	Names   int
	History int
}

// Sweep forgets the names that have been free and unused for longer than
// Options.Retention, and history older than Options.HistoryRetention. It goes
// through the tables once, in short transactions, and stops when ctx ends.
//
// Providers sweep a little by themselves too: one release in 250 looks at 500
// names, where the latest such release of any process ended, and one new entry in
// 250 at the 500 oldest entries. That keeps up with applications that release what
// they acquire. Those that let leases run out instead should call Sweep now and then.
//
// A name is forgotten only while its fencing token lies behind the database's
// clock, so that its next holder gets a greater one nevertheless.
func (p *Provider) Sweep(ctx context.Context) (Swept, error) {
	var total Swept
	for after, more := "", p.driver.retention > 0; more; more = after != "" {
		err := p.sweep(ctx, func(ctx context.Context) error {
			done, err := p.driver.backend.sweep(ctx, &after, sweepBatch, p.driver.retention)
			after, total.Names = done.last, total.Names+done.deleted
			return err
		})
		if err != nil {
			return total, err
		}
	}
	for more := p.driver.record.retention > 0; more; {
		err := p.sweep(ctx, func(ctx context.Context) error {
			deleted, err := p.driver.backend.sweepHistory(ctx, sweepBatch)
			more, total.History = deleted == sweepBatch, total.History+deleted
			return err
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// sweep runs a part of Sweep.
func (p *Provider) sweep(ctx context.Context, part func(context.Context) error) error {
	return providerkit.Call(ctx, p.shell, "sweep", "", func(ctx context.Context) error {
		if err := p.driver.check(ctx); err != nil {
			return err
		}
		return part(ctx)
	})
}

// sweepSome is called by every release, and sweeps with some of them, at random:
// processes that release once and end take part too. No trust runs while it waits.
// Its error is dropped; a later share may succeed.
func (d *driver) sweepSome(ctx context.Context) {
	if d.retention > 0 && d.random(sweepEvery) == 0 {
		_, _ = d.backend.sweep(ctx, nil, sweepBatch, d.retention)
	}
}
