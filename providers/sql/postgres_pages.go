package sqllease

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// query runs a statement that may wait for renewals, who go first.
func (p *postgres) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return p.limit.do(ctx, func() error { return p.db.query(ctx, statement, args, each) })
}

func (p *postgres) read(ctx context.Context, name string) (providerkit.Record, error) {
	var found row
	err := p.limit.do(ctx, func() (err error) {
		found, err = p.find(ctx, name)
		return err
	})
	return found.Record, err
}

func (p *postgres) list(ctx context.Context, q listQuery) ([]providerkit.Record, error) {
	var records []providerkit.Record
	var end *string
	if bound, bounded := after(q.prefix); bounded {
		end = &bound
	}
	args := []any{q.prefix, q.after, end, q.heldOnly, q.limit}
	err := p.query(ctx, p.sql.list, args, func(scan scan) error {
		var r pgRow
		var name string
		err := scan(append(r.columns(), &name)...)
		records = append(records, r.complete(name).Record)
		return err
	})
	return records, err
}

func (p *postgres) history(ctx context.Context, q historyQuery) (events []event, err error) {
	err = p.limit.do(ctx, func() error {
		events, err = readHistory(ctx, p.db, p.sql.history, q)
		return err
	})
	return events, err
}

func (p *postgres) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (swept, error) {
	var s swept
	err := p.query(ctx, p.sql.sweep, []any{after, limit, *micros(idle)}, func(scan scan) error {
		return scan(&s.last, &s.deleted)
	})
	return s, err
}

func (p *postgres) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = p.query(ctx, p.sql.sweepHistory, []any{limit}, func(scan scan) error { return scan(&deleted) })
	return deleted, err
}
