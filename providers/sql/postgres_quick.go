package sqllease

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// quick is an acquire or a release that has most likely nobody in its way. Those that
// come at the same time share a statement, each for another name: see package batch. It
// does what is to be done or nothing, and never waits for a row that others have locked
// unless it is alone.
type quick struct {
	N        int             `json:"n"`
	Name     string          `json:"name"`
	ID       string          `json:"id"`
	Hash     string          `json:"hash"`
	Owner    string          `json:"owner,omitempty"`
	TTL      *int64          `json:"ttl_us,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Payload  string          `json:"payload,omitempty"`

	ctx        context.Context // the caller's
	done       bool            // else it is for the rule to answer, unless there is an error
	token, now int64
	err        error
}

func (q *quick) Repeatable() bool { return true }
func (q *quick) Err() error       { return q.err }
func (q *quick) Fail(err error)   { q.err = err }

// together does what can be done in company. It returns nothing done if the rule has to
// decide.
func (p *postgres) together(ctx context.Context, op op) (applied, error) {
	q := &quick{Name: op.name, ID: op.id, Hash: hex.EncodeToString(hashOf(op.id))}
	with := p.releases
	switch {
	case op.acquire != nil:
		with = p.acquires
		q.Owner, q.TTL, q.Metadata = op.acquire.Owner, micros(op.acquire.TTL), json.RawMessage(encodeMetadata(op.acquire.Metadata))
	case op.release != nil:
		_, q.Payload = p.wake.address(op.name)
	default:
		return applied{}, nil
	}
	var cancel context.CancelFunc
	q.ctx, cancel = context.WithCancel(ctx) // none of the application's, for another goroutine
	defer cancel()
	if err := with.Do(ctx, q); err != nil {
		return applied{}, err
	}
	if q.err != nil || !q.done {
		return applied{}, q.err
	}
	done := applied{after: providerkit.Record{Name: q.Name, Token: q.token}}
	if op.acquire != nil {
		done.after.ID, done.after.TTL, done.after.Left = q.ID, op.acquire.TTL, abstractions.Infinite
		done.after.Now = time.UnixMicro(q.now).UTC()
		if q.TTL != nil {
			done.after.Left = time.Duration(*q.TTL) * time.Microsecond
		}
	}
	return done, nil
}

func (p *postgres) acquireMany(ctx context.Context, all []*quick) {
	if q := all[0]; len(all) == 1 && p.sql.acquire != "" {
		hash, _ := hex.DecodeString(q.Hash)
		p.alone(q, p.sql.acquire, q.Name, q.ID, q.Owner, q.TTL, string(q.Metadata), hash)
		return
	}
	p.many(ctx, all, p.sql.acquires)
}

func (p *postgres) releaseMany(ctx context.Context, all []*quick) {
	if q := all[0]; len(all) == 1 && p.sql.release != "" {
		hash, _ := hex.DecodeString(q.Hash)
		args := []any{q.Name, q.ID, hash}
		if p.wake != nil {
			args = append(args, q.Payload)
		}
		p.alone(q, p.sql.release, args...)
		return
	}
	p.many(ctx, all, p.sql.releases)
}

// alone runs the statement of one, which ends when its caller leaves: it may wait for a row.
func (p *postgres) alone(q *quick, statement string, args ...any) {
	q.err = p.query(q.ctx, statement, args, func(scan scan) error {
		q.done = true
		return scan(p.columns(statement == p.sql.release, &q.token, &q.now)...)
	})
}

// timed is a batch's context with a timer: pgx wants to be told of its deadline.
func timed(ctx context.Context) (context.Context, context.CancelFunc) {
	by, _ := ctx.Deadline()
	return context.WithDeadline(context.WithoutCancel(ctx), by)
}

// many runs the statement of many. If it is refused, each goes on by itself: what
// stands in one's way is not the others'.
func (p *postgres) many(ctx context.Context, all []*quick, statement string) {
	ctx, cancel := timed(ctx)
	defer cancel()
	slices.SortFunc(all, byName)
	each := slices.CompactFunc(slices.Clone(all), func(a, b *quick) bool { return a.Name == b.Name })
	for n, q := range each {
		q.N = n
	}
	list, err := json.Marshal(each)
	if err == nil {
		err = p.query(ctx, statement, []any{string(list)}, func(scan scan) error {
			var did quick
			err := scan(p.columns(statement == p.sql.releases, &did.Name, &did.token, &did.now)...)
			if at, found := slices.BinarySearchFunc(each, &did, byName); found {
				each[at].done, each[at].token, each[at].now = true, did.token, did.now
			}
			return err
		})
	}
	if err == nil || len(all) > 1 && p.class(err) == providerkit.Refused && ctx.Err() == nil {
		return
	}
	for _, q := range all {
		q.err = err
	}
}

// columns are those of an answer. That of a release has the result of its notification.
func (p *postgres) columns(released bool, dest ...any) []any {
	if released && p.wake != nil {
		dest = append(dest, new(any))
	}
	return dest
}

func byName(a, b *quick) int { return cmp.Compare(a.Name, b.Name) }
