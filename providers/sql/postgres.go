package sqllease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
)

// postgres is the backend on PostgreSQL. Each change is one statement and so
// one transaction: no lock is ever held while the server waits for a client,
// who may be paused for good.
type postgres struct {
	*store
	db *pgDatabase
	*wakeups
	limited // but for renewals
	// Those of the process that come at the same time share a statement and its commit.
	acquires, releases *batch.Batcher[*quick]
}

// apply reads the row, asks the rule, and writes what it wants under the
// condition that the row's version is still the same; if not it begins again.
// Who loses that race lost it to a change that was made.
func (p *postgres) apply(ctx context.Context, op op) (applied, error) {
	done, err := p.quickly(ctx, op)
	for err == nil && done.after.Name == "" {
		var found *storedRow
		var kept bool
		if found, kept, err = p.find(ctx, op.name, op.id, op.acquire); err != nil {
			break
		}
		token := found.Token
		next := applied{Change: op.rule(&found.Record)}
		if next.Write && op.acquire != nil && kept {
			free := abstractions.Record{Name: op.name, Token: token}
			next.Change = providerkit.Change{Err: &abstractions.HeldError{Holder: free, RetryAfter: found.ends.Left(found.at)}}
		}
		written := !next.Write
		if !written {
			written, err = p.write(ctx, found, &next.Change, found.Token != token)
		}
		if written {
			done = next
			done.after = found.Record
		}
	}
	if err == nil && done.Err == nil && op.acquire != nil {
		p.served(op.id)
	}
	return done, err
}

// find reads the row for a request of an ID, and whether the name is kept for a waiter that has not asked. An acquire that waits joins
// the queue if it is in vain.
func (p *postgres) find(ctx context.Context, name, id string, acquire *abstractions.AcquireRequest) (r *storedRow, kept bool, err error) {
	r = &storedRow{}
	r.Name = name
	statement, args := p.sql["read"], []any{name, hashOf(id)}
	if acquire != nil {
		if channel := p.channelOf(id); channel != nil {
			statement, args = p.sql["wait"], append(args, channel, id, acquire.Owner)
		}
	}
	err = p.query(ctx, statement, args, func(scan scan) error { return scan(append(r.pgColumns(), &kept)...) })
	r.settle(id)
	if len(args) > 2 && err == nil && p.random(tidyEvery) == 0 {
		_ = run(ctx, p, p.sql["tidy"], name)
	}
	return r, kept, err
}

// tidyEvery is after how many requests of waiters, on average, those who have waited for a name are forgotten.
const tidyEvery = 64

// write makes a change, and reports false if the row has changed since it was read. taken says that it has a new holder.
func (p *postgres) write(ctx context.Context, to *storedRow, c *providerkit.Change, taken bool) (ok bool, err error) {
	var lasts *int64
	if c.Deadline && to.ID != "" {
		lasts = micros(to.Left)
	}
	var note abstractions.HistoryEntry
	if p.record.changes {
		note = c.Note
	}
	before := to.encode()
	args := []any{
		to.Name, before, taken, to.ID, to.Owner, to.ttl, to.metadata, c.Deadline, lasts, to.Breaking, to.BrokenBy, to.BreakReason, to.ended,
		p.record.changes && c.Expired.Kind != "", string(note.Kind), note.ID, note.Owner, note.Actor, note.Reason, c.Wake, hashOf(to.ID),
	}
	var now, woken int64
	err = p.query(ctx, p.sql["write"], args, func(scan scan) error {
		ok = true
		return scan(&now, &to.Token, &to.ends.Wall, &woken)
	})
	if ok && err == nil {
		to.at.Wall = time.UnixMicro(now)
		to.Now, to.Left = to.at.Wall.UTC(), to.ends.Left(to.at)
	}
	return ok, err
}

// renewItem is one claim in the argument of renew.sql.
type renewItem struct {
	N        int             `json:"n"`
	Name     string          `json:"name"`
	ID       string          `json:"id"`
	Token    int64           `json:"token"`
	TTL      *int64          `json:"ttl_us"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

func (p *postgres) renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error) {
	items := make([]renewItem, len(reqs))
	for i := range reqs {
		req := &reqs[i]
		items[i] = renewItem{N: i, Name: req.Name, ID: req.ID, Token: req.Token, TTL: micros(req.TTL)}
		if req.Metadata != nil {
			items[i].Metadata = json.RawMessage(encodeMetadata(req.Metadata))
		}
	}
	list, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	statement := p.sql["renew_now"]
	if wait {
		statement = p.sql["renew"]
	}
	results := make([]abstractions.RenewResult, len(reqs))
	err = p.db.query(ctx, statement, []any{string(list), p.record.renewals}, func(scan scan) error {
		var n int
		var renewed, known bool
		var found storedRow
		if err := scan(append([]any{&n, &renewed, &known}, found.pgColumns()...)...); err != nil {
			return err
		}
		if n < 0 || n >= len(results) {
			return errors.New("sqllease: an answer to no request")
		}
		found.Name = reqs[n].Name
		found.settle(reqs[n].ID)
		results[n].Grant, results[n].Err = renewal(&reqs[n], &found.Record, renewed, known)
		return nil
	})
	if err != nil { // nothing was committed, or that is unknown
		return nil, err
	}
	return results, nil
}

// renewal is the answer to one claimant: found is the row as it was, if it is known.
func renewal(req *abstractions.RenewRequest, found *providerkit.Record, renewed, known bool) (abstractions.Grant, error) {
	if renewed {
		return grant(&providerkit.Record{Name: req.Name, ID: req.ID, Token: req.Token, Left: req.TTL, Now: found.Now}, req.TTL), nil
	}
	if !known {
		return abstractions.Grant{}, fmt.Errorf("%w: another transaction has the row locked", abstractions.ErrUnavailable)
	}
	if err := found.Renew(*req).Err; err != nil {
		return abstractions.Grant{}, err
	}
	return abstractions.Grant{}, fmt.Errorf("%w: the row changed while it was read, or the batch says two things of the claim", abstractions.ErrUnavailable)
}

func (p *postgres) close() error {
	p.wakeups.Close()
	p.acquires.Close()
	p.releases.Close()
	p.db.close()
	return nil
}
