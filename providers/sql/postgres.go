package sqllease

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// postgres is the backend on PostgreSQL. Each change is one statement and so
// one transaction: no lock is ever held while the server waits for a client,
// who may be paused for good.
type postgres struct {
	db     pgDatabase
	sql    postgresSQL
	naming naming
	record recording
	wake   *wakeups // nil if the name's waiters can't be told
	lane   lane
}

var postgresCapabilities = abstractions.Capabilities{
	Provider:       "postgres",
	MaxTTL:         maxTTL,
	MinTTL:         100 * time.Millisecond,
	Granularity:    time.Microsecond,
	Infinite:       true,
	Clock:          "the PostgreSQL server's clock",
	Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
	RemainingKnown: true,
}

func (p *postgres) capabilities() abstractions.Capabilities { return postgresCapabilities }

func (p *postgres) meaning(err error) meaning { return sqlStateMeaning(err) }

func (p *postgres) apply(ctx context.Context, op op) (o outcome, err error) {
	err = p.lane.pass(ctx, func() error {
		o, err = p.attempt(ctx, op)
		return err
	})
	return o, err
}

// attempt reads the row, asks the rule, and writes what it wants under the
// condition that the row's version is still the same; if not it begins again.
// Who loses that race lost it to a change that was made.
func (p *postgres) attempt(ctx context.Context, op op) (outcome, error) {
	before, done, err := p.start(ctx, op)
	if done != nil || err != nil {
		return deref(done), err
	}
	for {
		o := outcome{change: op.rule(&before), before: before, after: before}
		if !o.write {
			return o, nil
		}
		written, err := p.write(ctx, &o)
		if written || err != nil {
			return o, err
		}
		if before, err = p.find(ctx, op.name); err != nil {
			return outcome{}, err
		}
	}
}

func deref(o *outcome) outcome {
	if o == nil {
		return outcome{}
	}
	return *o
}

// start answers the op with a shortcut if there is one that fits, or else
// returns the row to begin with.
func (p *postgres) start(ctx context.Context, op op) (before row, done *outcome, err error) {
	switch {
	case op.take != nil:
		return p.take(ctx, op.take)
	case op.give != nil:
		if done, err := p.give(ctx, op.give); done != nil || err != nil {
			return row{}, done, err
		}
	}
	before, err = p.find(ctx, op.name)
	return before, nil, err
}

func (p *postgres) take(ctx context.Context, req *abstractions.AcquireRequest) (row, *outcome, error) {
	var before, after pgRow
	args := []any{req.Name, req.ID, req.Owner, micros(req.TTL), encodeMetadata(req.Metadata), p.record.changes}
	err := p.db.query(ctx, p.sql.acquire, args, func(scan scan) error {
		return scan(append(before.columns(), &after.version, &after.token, &after.acquired, &after.expires)...)
	})
	if err != nil {
		return row{}, nil, err
	}
	found := before.row(req.Name)
	if after.version == 0 {
		return found, nil, nil
	}
	after.id, after.owner, after.ttl, after.now = req.ID, req.Owner, micros(req.TTL), *after.acquired
	return found, &outcome{before: found, after: after.row(req.Name)}, nil
}

func (p *postgres) give(ctx context.Context, req *abstractions.ReleaseRequest) (*outcome, error) {
	channel, payload := p.wake.address(req.Name)
	var done *outcome
	args := []any{req.Name, req.ID, p.record.changes, channel, payload}
	err := p.db.query(ctx, p.sql.release, args, func(scan scan) error {
		var after pgRow
		var ranOut bool
		var woken int64
		if err := scan(&after.now, &after.token, &ranOut, &woken); err != nil {
			return err
		}
		done = &outcome{after: after.row(req.Name)}
		done.wake = !ranOut
		return nil
	})
	return done, err
}

func (p *postgres) find(ctx context.Context, name string) (row, error) {
	var r pgRow
	err := p.db.query(ctx, p.sql.read, []any{name}, func(scan scan) error { return scan(r.columns()...) })
	return r.row(name), err
}

// write makes the change. It reports false if the row has changed since it was read.
func (p *postgres) write(ctx context.Context, o *outcome) (written bool, err error) {
	to := &o.change
	var channel, payload string
	if to.wake {
		channel, payload = p.wake.address(to.name)
	}
	expired, note, noteID, noteOwner := p.record.of(o)
	args := []any{
		to.name, o.before.version, to.newToken, to.id, to.owner, micros(to.ttl), to.metadata,
		int(to.expiry), micros(to.in), to.breaking, to.ended.String(),
		expired, note, noteID, noteOwner, channel, payload,
	}
	var after pgRow
	var woken int64
	err = p.db.query(ctx, p.sql.write, args, func(scan scan) error {
		written = true
		return scan(&after.now, &after.version, &after.token, &after.acquired, &after.expires, &woken)
	})
	if written && err == nil {
		after.id, after.owner, after.ttl = to.id, to.owner, micros(to.ttl)
		o.after = after.row(to.name)
	}
	return written, err
}

// renewItem is one claim in the argument of renew.sql.
type renewItem struct {
	N     int    `json:"n"`
	Name  string `json:"name"`
	ID    string `json:"id"`
	Token int64  `json:"token"`
	TTL   *int64 `json:"ttl_us"`
}

func (p *postgres) renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]verdict, error) {
	items := make([]renewItem, len(reqs))
	for i, req := range reqs {
		items[i] = renewItem{N: i, Name: req.Name, ID: req.ID, Token: req.Token, TTL: micros(req.TTL)}
	}
	list, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	statement := p.sql.renewNow
	if wait {
		statement = p.sql.renew
	}
	verdicts := make([]verdict, len(reqs))
	err = p.db.query(ctx, statement, []any{string(list), p.record.renewals}, func(scan scan) error {
		var n int
		var v verdict
		var r pgRow
		if err := scan(&n, &v.renewed, &v.known, &r.now, &r.version, &r.token, &r.id, &r.ttl, &r.expires, &r.breaking, &r.ended); err != nil {
			return err
		}
		if n < 0 || n >= len(verdicts) {
			return errors.New("sqllease: an answer to no request")
		}
		if v.renewed {
			r.ttl = micros(reqs[n].TTL)
		}
		v.row = r.row(reqs[n].Name)
		verdicts[n] = v
		return nil
	})
	return verdicts, err
}

func (p *postgres) ping(ctx context.Context) error { return run(ctx, p.db, "SELECT 1") }

func (p *postgres) close() error {
	p.wake.close()
	return p.db.close()
}

// pgRow is what statements return of a row.
type pgRow struct {
	now               time.Time
	version, token    int64
	id, owner         string
	ttl               *int64
	metadata          string
	acquired, expires *time.Time
	breaking          bool
	ended             string
}

// columns are those of read.sql, in order.
func (r *pgRow) columns() []any {
	return []any{
		&r.now, &r.version, &r.token, &r.id, &r.owner, &r.ttl, &r.metadata, &r.acquired, &r.expires, &r.breaking, &r.ended,
	}
}

func (r *pgRow) row(name string) row {
	found := row{
		name: name, version: r.version, token: r.token, id: r.id, owner: r.owner, ttl: fromMicros(r.ttl),
		metadata: r.metadata, breaking: r.breaking, ended: parseEnded(r.ended), now: r.now.UTC(),
	}
	if r.acquired != nil {
		found.acquiredAt = r.acquired.UTC()
	}
	left := abstractions.Infinite
	if r.expires != nil {
		left, found.ends = min(r.expires.Sub(r.now), math.MaxInt64-1), r.expires.UTC()
	}
	found.setLeft(left)
	return found
}
