package sqllease

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

func (d *driver) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	req.Metadata = maps.Clone(req.Metadata) // the change may outlive its caller
	done, err := d.apply(ctx, dialect.Op{
		Name: req.Name, ID: req.ID, Acquire: &req,
		Rule: func(r *providerkit.Record) providerkit.Change { return r.Acquire(req) },
	})
	if err != nil {
		return abstractions.Grant{}, err
	}
	return dialect.Grant(&done.After, req.TTL), nil
}

// Times returns the database's time at a grant of this provider, and the time at which others
// may acquire the name unless the claim is renewed. The latter is zero for an infinite lease.
// ok is false for a grant of another provider. (A record has both times as well.)
//
// Both are by the database's clock: never compare them with this machine's clock. A
// holder counts the TTL from the instant before it sent the request.
func Times(g abstractions.Grant) (serverTime, expiresAt time.Time, ok bool) {
	t, ok := g.State.(dialect.Times)
	return t.Now, t.Expires, ok
}

// apply makes a change, if the tables are ours. The error may come from the rule.
func (d *driver) apply(ctx context.Context, op dialect.Op) (dialect.Applied, error) {
	if err := d.check(ctx); err != nil {
		return dialect.Applied{}, err
	}
	done, err := d.backend.Apply(ctx, op)
	if err = cmp.Or(err, done.Err); err == nil && d.Record.Changes {
		d.trimSome(ctx, 1)
	}
	return done, err
}

func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	results, err := d.renew(ctx, []abstractions.RenewRequest{req}, true)
	if err != nil {
		return abstractions.Grant{}, err
	}
	return results[0].Grant, results[0].Err
}

// RenewBatch renews many claims in one transaction. On PostgreSQL a row that another transaction
// has locked is left out, so that it does not delay the others; its outcome is reported as unknown.
func (d *driver) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return d.renew(ctx, reqs, false)
}

func (d *driver) renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error) {
	err := d.check(ctx)
	var results []abstractions.RenewResult
	if err == nil {
		results, err = d.backend.Renew(ctx, reqs, wait)
	}
	if errors.Is(err, dialect.ErrGone) {
		lost := &abstractions.LostError{Reason: abstractions.LostGone, Err: err}
		return slices.Repeat([]abstractions.RenewResult{{Err: lost}}, len(reqs)), nil
	}
	if err == nil && d.Record.Renewals {
		d.trimSome(ctx, len(reqs))
	}
	return results, err
}

func (d *driver) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := d.apply(ctx, dialect.Op{
		Name: req.Name, ID: req.ID, Release: &req,
		Rule: func(r *providerkit.Record) providerkit.Change { return r.Release(req) },
	})
	if err == nil {
		d.sweepSome(ctx)
	}
	return err
}

// Break ends the lease that it has read. If another lease has replaced it before the write, Break
// leaves the new lease alone.
func (d *driver) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	var result abstractions.BreakResult // not a named result, which the rule could still set after an error
	var met int64                       // the token of the lease to break, after a lost race
	_, err := d.apply(ctx, dialect.Op{Name: req.Name, Rule: func(r *providerkit.Record) (c providerkit.Change) {
		if met != 0 && !(r.Held() && r.Token == met) {
			result = abstractions.BreakResult{Token: met}
			return providerkit.Change{}
		}
		if r.Held() {
			met = r.Token
		}
		result, c = r.Break(req)
		return c
	}})
	if err != nil {
		return abstractions.BreakResult{}, err
	}
	return result, nil
}

func (d *driver) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := d.check(ctx); err != nil {
		return abstractions.Record{}, err
	}
	found, err := d.backend.Read(ctx, req.Name)
	return found.Show(), err
}

// List returns a page of records in the order of their names' bytes. Names that
// were never held are not listed.
func (d *driver) List(ctx context.Context, req abstractions.ListRequest) (page abstractions.ListResult, err error) {
	if err := d.check(ctx); err != nil {
		return page, err
	}
	limit := req.PageLimit()
	found, err := d.backend.List(ctx, req, limit+1)
	if len(found) > limit {
		found = found[:limit]
		page.Next = found[limit-1].Name
	}
	for i := range found {
		page.Records = append(page.Records, found[i].Show())
	}
	return page, err
}

// Ping reads the version of the tables, even if no check is due.
func (d *driver) Ping(ctx context.Context) error {
	d.checked.Store(0)
	return d.check(ctx)
}

// Wait registers a waiter. It fails while the database does not accept a listener; the waiter then
// polls, and has no place in the queue.
func (d *driver) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return d.backend.Wait(ctx, req)
}

// Waiters lists the waiters of a name.
func (d *driver) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	return d.backend.Waiting(ctx, req.Name)
}

// Close closes the connections that Open made; the application's own stay open.
func (d *driver) Close() error { return d.backend.Close() }
