package postgreslease

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// postgres is the backend on PostgreSQL. Each change is one statement and so one
// transaction: no lock is ever held while the server waits for a client, which may
// never continue.
type postgres struct {
	*dialect.Store
	db *pgDatabase
	*dialect.Wakeups
	dialect.Limited // except for renewals
	// Concurrent acquires of the process share a statement and its commit, and so do releases.
	acquires, releases *batch.Batcher[*fastRequest]
}

// Apply begins with tryFast. If tryFast does not decide, Apply reads the row, applies the rule, and
// writes the change on condition that the row's version is unchanged. If the version has changed,
// Apply repeats these steps.
func (p *postgres) Apply(ctx context.Context, op dialect.Op) (dialect.Applied, error) {
	done, err := p.tryFast(ctx, op)
	for err == nil && done.After.Name == "" {
		var found *dialect.Row
		var kept bool
		if found, kept, err = p.find(ctx, op.Name, op.ID, op.Acquire); err != nil {
			break
		}
		token := found.Token
		next := dialect.Applied{Change: op.Rule(&found.Record)}
		if next.Write && op.Acquire != nil && kept {
			free := abstractions.Record{Name: op.Name, Token: token}
			next.Change = providerkit.Change{Err: &abstractions.HeldError{Holder: free, RetryAfter: found.Ends.Left(found.At)}}
		}
		written := !next.Write
		if !written {
			written, err = p.write(ctx, found, &next.Change, found.Token != token)
		}
		if written {
			done = next
			done.After = found.Record
		}
	}
	if err == nil && done.Err == nil && op.Acquire != nil && p.Waits() {
		p.Served(dialect.WaiterOf(op.ID))
	}
	return done, err
}

// find reads the row for a request with an ID, and reports whether the name is kept for another waiter. A waiter's acquire that is
// refused joins the queue.
func (p *postgres) find(ctx context.Context, name, id string, acquire *abstractions.AcquireRequest) (r *dialect.Row, kept bool, err error) {
	r = &dialect.Row{}
	r.Name = name
	statement, args := p.SQL["read"], []any{name, dialect.HashOf(id)}
	if acquire != nil {
		if channel := p.ChannelOf(id); channel != nil {
			statement, args = p.SQL["wait"], append(args, channel, id, acquire.Owner)
		}
	}
	err = p.Query(ctx, statement, args, func(scan dialect.Scan) error { return scan(append(pgColumns(r), &kept, &r.Floor)...) })
	r.Settle(id)
	if len(args) > 2 && err == nil && p.Random(sweepEvery) == 0 {
		_ = dialect.Run(ctx, p, p.SQL["forget_waiters"], name)
	}
	return r, kept, err
}

// sweepEvery is the number of waiters' requests, on average, after which the identities of past waiters are deleted.
const sweepEvery = 64

// write makes a change, and reports false if the row has changed since it was read. taken says that the name has a new holder.
func (p *postgres) write(ctx context.Context, to *dialect.Row, c *providerkit.Change, taken bool) (ok bool, err error) {
	var lasts *int64
	if c.Deadline && to.ID != "" {
		lasts = dialect.Micros(to.Left)
	}
	var note abstractions.HistoryEntry
	if p.Record.Changes {
		note = c.Note.Entry()
	}
	before := to.Encode()
	args := []any{
		to.Name, before, taken, to.ID, to.Owner, to.TTLMicros, to.MetadataText, c.Deadline, lasts, to.Breaking, to.BrokenBy, to.BreakReason, to.Memory,
		p.Record.Changes && c.Expired.Kind != "", string(note.Kind), note.Fingerprint.String(), note.Owner, note.Actor, note.Reason, c.Wake, dialect.HashOf(to.ID),
	}
	var now, woken int64
	err = p.Query(ctx, p.SQL["write"], args, func(scan dialect.Scan) error {
		ok = true
		return scan(&now, &to.Token, &to.Ends.Wall, &woken)
	})
	if ok && err == nil {
		to.At.Wall = time.UnixMicro(now)
		to.Now, to.Left = to.At.Wall.UTC(), to.Ends.Left(to.At)
	}
	return ok, err
}

func (*postgres) Verdict(err error) sqlkit.Verdict { return pgkit.Verdict(err) }

func (p *postgres) Close() error {
	p.Wakeups.Close()
	p.acquires.Close()
	p.releases.Close()
	p.db.close()
	return nil
}

// fastRequest is an acquire or a release that is most likely uncontended. Concurrent requests for
// different names share a statement: see package batch. A request makes its whole change or no
// change. It waits for a row that others have locked only if it is alone in its statement.
type fastRequest struct {
	N        int    `json:"n"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	Hash     []byte `json:"hash"` // in base64
	Owner    string `json:"owner"`
	TTL      *int64 `json:"ttl_us,omitempty"`
	Metadata string `json:"metadata,omitempty"` // JSON as text

	batch.Outcome
	hash       [dialect.HashBytes]byte // the array behind Hash
	done       bool                    // if false, the rule decides, unless there is an error
	token, now int64
}

// tryFast tries an uncontended acquire, or a release by the holder. It returns an empty result if
// the rule has to decide.
func (p *postgres) tryFast(ctx context.Context, op dialect.Op) (dialect.Applied, error) {
	q := &fastRequest{Name: op.Name, ID: op.ID}
	q.Hash = dialect.AppendHash(q.hash[:0], op.ID)
	with := p.releases
	switch {
	case op.Acquire != nil:
		with = p.acquires
		q.Owner, q.TTL, q.Metadata = op.Acquire.Owner, dialect.Micros(op.Acquire.TTL), dialect.EncodeMetadata(op.Acquire.Metadata)
	case op.Release != nil:
	default:
		return dialect.Applied{}, nil
	}
	if err := with.Do(ctx, q); err != nil {
		return dialect.Applied{}, err
	}
	if q.Err() != nil || !q.done {
		return dialect.Applied{}, q.Err()
	}
	done := dialect.Applied{After: providerkit.Record{Name: q.Name, Token: q.token}}
	if op.Acquire != nil {
		done.After.ID, done.After.TTL, done.After.Left = q.ID, op.Acquire.TTL, dialect.FromMicros(q.TTL)
		done.After.Now = time.UnixMicro(q.now).UTC()
	}
	return done, nil
}

func (p *postgres) acquireMany(ctx context.Context, all []*fastRequest, direct bool) {
	q := all[0]
	p.send(ctx, all, direct, p.SQL["acquires"], p.SQL["acquire"], q.Name, q.ID, q.Owner, q.TTL, q.Metadata, q.Hash)
}

func (p *postgres) releaseMany(ctx context.Context, all []*fastRequest, direct bool) {
	q := all[0]
	p.send(ctx, all, direct, p.SQL["releases"], p.SQL["release"], q.Name, q.ID, q.Hash)
}

// send runs the statement of a single change (one, with its args), or the statement of several changes
// (many). A single change may wait for a row, so its caller sends the statement itself, and the wait
// ends with that caller.
func (p *postgres) send(ctx context.Context, all []*fastRequest, direct bool, many, one string, args ...any) {
	if q := all[0]; direct && one != "" {
		q.Fail(p.Query(ctx, one, args, func(scan dialect.Scan) error {
			q.done = true
			return scan(&q.token, &q.now)
		}))
		return
	}
	// After a refusal each change runs alone, since any one of them may have caused the refusal.
	err := p.sendBatch(ctx, all, many)
	if err == nil || len(all) > 1 && p.Verdict(err).Class == providerkit.Refused && ctx.Err() == nil {
		return
	}
	for _, q := range all {
		q.Fail(err)
	}
}

func (p *postgres) sendBatch(ctx context.Context, all []*fastRequest, statement string) error {
	slices.SortFunc(all, byName)
	each := slices.CompactFunc(slices.Clone(all), func(a, b *fastRequest) bool { return a.Name == b.Name })
	for n, q := range each {
		q.N = n
	}
	list, err := json.Marshal(each)
	if err != nil {
		return err
	}
	var did fastRequest
	columns := []any{&did.Name, &did.token, &did.now}
	err = p.Query(ctx, statement, []any{string(list)}, func(scan dialect.Scan) error {
		err := scan(columns...)
		if at, found := slices.BinarySearchFunc(each, &did, byName); found {
			each[at].done, each[at].token, each[at].now = true, did.token, did.now
		}
		return err
	})
	for _, q := range each { // rows arrive before the commit, which may still fail
		q.done = q.done && err == nil
	}
	return err
}

func byName(a, b *fastRequest) int { return cmp.Compare(a.Name, b.Name) }
