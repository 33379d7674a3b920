package sqllease

import (
	"context"
	"time"
)

// query runs a statement that may wait for renewals, who go first.
func (p *postgres) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return p.lane.pass(ctx, func() error { return p.db.query(ctx, statement, args, each) })
}

func (p *postgres) read(ctx context.Context, name string) (found row, err error) {
	err = p.lane.pass(ctx, func() error {
		found, err = p.find(ctx, name)
		return err
	})
	return found, err
}

func (p *postgres) list(ctx context.Context, q listQuery) ([]row, error) {
	var rows []row
	var end *string
	if bound, bounded := after(q.prefix); bounded {
		end = &bound
	}
	args := []any{q.prefix, q.after, end, q.heldOnly, q.limit}
	err := p.query(ctx, p.sql.list, args, func(scan scan) error {
		var r pgRow
		var name string
		if err := scan(append(r.columns(), &name)...); err != nil {
			return err
		}
		rows = append(rows, r.row(name))
		return nil
	})
	return rows, err
}

func (p *postgres) history(ctx context.Context, q historyQuery) ([]event, error) {
	var events []event
	err := p.query(ctx, p.sql.history, []any{q.name, q.after, q.limit}, func(scan scan) error {
		var e event
		if err := scan(&e.seq, &e.Time, (*string)(&e.Kind), &e.ID, &e.Owner, &e.Token); err != nil {
			return err
		}
		e.Time = e.Time.UTC()
		events = append(events, e)
		return nil
	})
	return events, err
}

func (p *postgres) sweep(ctx context.Context, after string, limit int, idle time.Duration) (swept, error) {
	var s swept
	err := p.query(ctx, p.sql.sweep, []any{after, limit, *micros(idle)}, func(scan scan) error {
		var seen int
		if err := scan(&seen, &s.last, &s.deleted); err != nil {
			return err
		}
		if seen < limit {
			s.last = ""
		}
		return nil
	})
	return s, err
}

func (p *postgres) sweepHistory(ctx context.Context, limit int, age time.Duration) (deleted int, err error) {
	err = p.query(ctx, p.sql.sweepHistory, []any{limit, *micros(age)}, func(scan scan) error { return scan(&deleted) })
	return deleted, err
}
