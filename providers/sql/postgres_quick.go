package sqllease

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
)

// quick is an acquire or a release that has most likely nobody in its way. Those that
// come at the same time share a statement, each for another name: see package batch. It
// does what is to be done or nothing, and never waits for a row that others have locked
// unless it is alone.
type quick struct {
	N        int    `json:"n"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	Hash     []byte `json:"hash"` // in base64
	Owner    string `json:"owner"`
	TTL      *int64 `json:"ttl_us,omitempty"`
	Metadata string `json:"metadata,omitempty"` // JSON in a text

	batch.Outcome
	hash       [hashBytes]byte // behind Hash
	done       bool            // else it is for the rule to answer, unless there is an error
	token, now int64
}

// quickly does an acquire that nobody is in the way of, or a release by the holder. It
// returns nothing done if the rule has to decide.
func (p *postgres) quickly(ctx context.Context, op op) (applied, error) {
	q := &quick{Name: op.name, ID: op.id}
	q.Hash = appendHash(q.hash[:0], op.id)
	with := p.releases
	switch {
	case op.acquire != nil:
		with = p.acquires
		q.Owner, q.TTL, q.Metadata = op.acquire.Owner, micros(op.acquire.TTL), encodeMetadata(op.acquire.Metadata)
	case op.release != nil:
	default:
		return applied{}, nil
	}
	if err := with.Do(ctx, q); err != nil {
		return applied{}, err
	}
	if q.Err() != nil || !q.done {
		return applied{}, q.Err()
	}
	done := applied{after: providerkit.Record{Name: q.Name, Token: q.token}}
	if op.acquire != nil {
		done.after.ID, done.after.TTL, done.after.Left = q.ID, op.acquire.TTL, fromMicros(q.TTL)
		done.after.Now = time.UnixMicro(q.now).UTC()
	}
	return done, nil
}

func (p *postgres) acquireMany(ctx context.Context, all []*quick, direct bool) {
	q := all[0]
	p.send(ctx, all, direct, p.sql["acquires"], p.sql["acquire"], q.Name, q.ID, q.Owner, q.TTL, q.Metadata, q.Hash)
}

func (p *postgres) releaseMany(ctx context.Context, all []*quick, direct bool) {
	q := all[0]
	p.send(ctx, all, direct, p.sql["releases"], p.sql["release"], q.Name, q.ID, q.Hash)
}

// send runs the statement of one, with its parameters, or that of many. That of one may wait for a
// row, and so is for a caller that sends directly, with whom it ends.
func (p *postgres) send(ctx context.Context, all []*quick, direct bool, many, one string, args ...any) {
	if q := all[0]; direct && one != "" {
		q.Fail(p.query(ctx, one, args, func(scan scan) error {
			q.done = true
			return scan(&q.token, &q.now)
		}))
		return
	}
	// If it is refused, each goes on by itself: what stands in one's way is not the others'.
	err := p.together(ctx, all, many)
	if err == nil || len(all) > 1 && p.class(err) == providerkit.Refused && ctx.Err() == nil {
		return
	}
	for _, q := range all {
		q.Fail(err)
	}
}

func (p *postgres) together(ctx context.Context, all []*quick, statement string) error {
	slices.SortFunc(all, byName)
	each := slices.CompactFunc(slices.Clone(all), func(a, b *quick) bool { return a.Name == b.Name })
	for n, q := range each {
		q.N = n
	}
	list, err := json.Marshal(each)
	if err != nil {
		return err
	}
	var did quick
	columns := []any{&did.Name, &did.token, &did.now}
	err = p.query(ctx, statement, []any{string(list)}, func(scan scan) error {
		err := scan(columns...)
		if at, found := slices.BinarySearchFunc(each, &did, byName); found {
			each[at].done, each[at].token, each[at].now = true, did.token, did.now
		}
		return err
	})
	for _, q := range each { // rows come before the commit, which may be refused
		q.done = q.done && err == nil
	}
	return err
}

func byName(a, b *quick) int { return cmp.Compare(a.Name, b.Name) }
