package postgreslease

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

func (p *postgres) Read(ctx context.Context, name string) (providerkit.Record, error) {
	found, _, err := p.find(ctx, name, "", nil)
	return found.Record, err
}

func (p *postgres) Turns(ctx context.Context, all []dialect.Turn) (ids []string, err error) {
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	err = p.Query(ctx, p.SQL["turns"], []any{string(list)}, func(scan dialect.Scan) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

func (p *postgres) Waiting(ctx context.Context, name string) (list []abstractions.Waiting, err error) {
	err = p.Query(ctx, p.SQL["waiters"], []any{name, abstractions.MaxWaiters}, func(scan dialect.Scan) error {
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

func (p *postgres) Dequeue(ctx context.Context, name, id string) error {
	hash, err := hex.DecodeString(id)
	if err != nil {
		return err
	}
	return dialect.Run(ctx, p, p.SQL["leave"], name, hash)
}

func (p *postgres) List(ctx context.Context, req abstractions.ListRequest, limit int) ([]providerkit.Record, error) {
	var records []providerkit.Record
	args := []any{req.Prefix, req.After, dialect.Beyond(req.Prefix), req.HeldOnly, limit}
	err := p.Query(ctx, p.SQL["list"], args, func(scan dialect.Scan) error {
		var r dialect.Row
		err := scan(append(pgColumns(&r), &r.Name)...)
		r.Settle("")
		records = append(records, r.Record)
		return err
	})
	return records, err
}

func (p *postgres) Sweep(ctx context.Context, after *string, limit int, idle time.Duration) (deleted int, last string, err error) {
	err = p.Query(ctx, p.SQL["sweep"], []any{after, limit, *dialect.Micros(idle)}, func(scan dialect.Scan) error { return scan(&last, &deleted) })
	return deleted, last, err
}

func (p *postgres) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return p.Query(ctx, p.SQL["write_history"], []any{string(text)}, func(dialect.Scan) error { return nil })
}

func (p *postgres) SweepHistory(ctx context.Context, limit int) (deleted int, err error) {
	err = p.Query(ctx, p.SQL["sweep_history"], []any{limit}, func(scan dialect.Scan) error { return scan(&deleted) })
	return deleted, err
}
