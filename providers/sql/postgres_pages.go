package sqllease

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func (p *postgres) read(ctx context.Context, name string) (providerkit.Record, error) {
	found, _, err := p.find(ctx, name, "", nil)
	return found.Record, err
}

func (p *postgres) turns(ctx context.Context, all []turn) (ids []string, err error) {
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	err = p.query(ctx, p.sql["turns"], []any{string(list)}, func(scan scan) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

func (p *postgres) waiting(ctx context.Context, name string) (list []abstractions.Waiting, err error) {
	err = p.query(ctx, p.sql["waiters"], []any{name, abstractions.MaxWaiters}, func(scan scan) error {
		var w abstractions.Waiting
		var id string
		var now, since int64
		err := scan(&now, &id, &w.Owner, &since)
		w.Fingerprint = abstractions.FingerprintOf(id)
		w.Now, w.Since = time.UnixMicro(now).UTC(), time.UnixMicro(since).UTC()
		list = append(list, w)
		return err
	})
	return list, err
}

func (p *postgres) dequeue(ctx context.Context, name, id string) error {
	hash, err := hex.DecodeString(id)
	if err != nil {
		return err
	}
	return run(ctx, p, p.sql["leave"], name, hash)
}

func (p *postgres) list(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error) {
	var records []providerkit.Record
	args := []any{req.Prefix, req.After, beyond(req.Prefix), req.HeldOnly, limit}
	err := p.query(ctx, p.sql["list"], args, func(scan scan) error {
		var r storedRow
		err := scan(append(r.pgColumns(), &r.Name)...)
		r.settle("")
		records = append(records, r.Record)
		return err
	})
	return records, err
}

func (p *postgres) sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = p.query(ctx, p.sql["sweep"], []any{after, limit, *micros(idle)}, func(scan scan) error { return scan(&last, &deleted) })
	return deleted, last, err
}

func (p *postgres) writeHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return p.query(ctx, p.sql["write_history"], []any{string(text)}, func(scan) error { return nil })
}

func (p *postgres) sweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = p.query(ctx, p.sql["sweep_history"], []any{limit}, func(scan scan) error { return scan(&deleted) })
	return deleted, err
}
