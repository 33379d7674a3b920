package sqlsequence

import (
	"context"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Read returns entries. It reads the bound before the entries: a number up to the bound is closed, and stays closed.
func (s *Store[Tx]) Read(ctx context.Context, req seqstore.ReadRequest) (page seqstore.Page, err error) {
	var sealed, watermark, leased, closed int64
	before := seqstore.Entry{Seq: req.From - 1}
	err = s.queryStream(ctx, s.sql.place, []any{req.Stream, before.Seq}, &sealed, &watermark, &page.Last, &page.Epoch, &before.Op, &before.Origin, &leased, &closed)
	if err != nil {
		return page, err
	}
	if before.Op != "" {
		before.Epoch, before.LeasedAt, before.ClosedAt = page.Epoch, timeOf(leased), timeOf(closed)
		page.Before = before.Mark()
	}
	page.Through = watermark
	if req.Sealed {
		page.Through = sealed
	}
	statement, args := s.sql.entries, []any{req.Stream, req.From, page.Through, req.Limit}
	condition := ""
	if req.Uncleaned {
		condition = "uncleaned"
	} else if len(req.States) > 0 {
		if condition, err = inStates(req.States); err != nil {
			return page, err
		}
	}
	if condition != "" {
		statement, args = strings.Replace(s.sql.selected, "{{condition}}", condition, 1), []any{req.Stream, req.From, req.Limit}
	}
	err = s.read(ctx, statement, args, func(scan scan) error {
		var r row
		err := r.scan(scan)
		r.Epoch = page.Epoch
		page.Entries = append(page.Entries, r.Entry)
		return err
	})
	return page, err
}

// queryStream runs a statement that returns a row if the stream exists. The stream is the first argument.
func (s *Store[Tx]) queryStream(ctx context.Context, statement string, args []any, dest ...any) error {
	found := false
	err := s.read(ctx, statement, args, func(scan scan) error {
		found = true
		return scan(dest...)
	})
	if err == nil && !found {
		err = seqstore.UnknownStream(args[0].(string))
	}
	return err
}

// Find returns the entry of an operation.
func (s *Store[Tx]) Find(ctx context.Context, stream, op string) (seqstore.Entry, error) {
	var r row
	found := false
	err := s.read(ctx, s.sql.find, []any{stream, op}, func(scan scan) error {
		found = true
		return r.scan(scan)
	})
	if err == nil && !found {
		err = seqstore.NotFound(stream, fmt.Sprintf("operation %q", op))
	}
	return r.Entry, err
}

// Events returns the audit of some numbers. Without Options.Audit it returns a
// leasing.ErrUnsupported.
func (s *Store[Tx]) Events(ctx context.Context, stream string, from, to int64) (all []seqstore.Event, err error) {
	if !s.audit {
		return nil, fmt.Errorf("sequence: events: %w without an audit: set Options.Audit, and call Migrate", leasing.ErrUnsupported)
	}
	err = s.read(ctx, s.sql.events, []any{stream, from, to}, func(scan scan) error {
		var e seqstore.Event
		var at int64
		err := scan(&at, &e.Seq, &e.Event, &e.Who, &e.Token)
		e.At = timeOf(at)
		all = append(all, e)
		return err
	})
	return all, err
}

// Status returns a summary of a stream.
func (s *Store[Tx]) Status(ctx context.Context, stream string) (seqstore.Status, error) {
	status := seqstore.Status{Stream: stream}
	var now, recovery int64
	err := s.queryStream(ctx, s.sql.status, []any{stream}, &now, &status.Last, &status.Sealed, &recovery, &status.Open, &status.Expired, &status.Claimable, &status.Gaps, &status.Watermark)
	status.Now = timeOf(now)
	if recovery > now {
		status.RecoveryUntil = timeOf(recovery)
	}
	return status, err
}

// LowestOpen returns the lowest open number, or 0.
func (s *Store[Tx]) LowestOpen(ctx context.Context, stream string) (lowest int64, err error) {
	err = s.queryStream(ctx, s.sql.lowest, []any{stream}, &lowest)
	return lowest, err
}

// Manual returns undecided items.
func (s *Store[Tx]) Manual(ctx context.Context, stream string, limit int) (items []seqstore.ManualItem, err error) {
	err = s.read(ctx, s.sql.manual, []any{stream, limit}, func(scan scan) error {
		var item seqstore.ManualItem
		var created int64
		err := scan(&item.ID, &item.Stream, &item.Seq, &item.Op, &item.Payload, &item.Reason, &created)
		item.CreatedAt = timeOf(created)
		items = append(items, item)
		return err
	})
	return items, err
}

// FindManual returns an item.
func (s *Store[Tx]) FindManual(ctx context.Context, id int64) (item seqstore.ManualItem, err error) {
	found := false
	err = s.read(ctx, s.sql.findManual, []any{id}, func(scan scan) error {
		var created, resolved int64
		err := scan(&item.ID, &item.Stream, &item.Seq, &item.Op, &item.Payload, &item.Reason, &created, &resolved, &item.ResolvedBy)
		item.CreatedAt, item.ResolvedAt, found = timeOf(created), timeOf(resolved), true
		return err
	})
	if err == nil && !found {
		err = seqstore.ErrNotFound
	}
	return item, err
}

// Watch returns wake-ups.
func (s *Store[Tx]) Watch(ctx context.Context, stream string) (<-chan struct{}, error) {
	channel := s.hub.Add(ctx, stream)
	if s.wake != nil { // listens while there are waiters; if that fails, they poll
		_, _ = s.wake.listener.Wait(ctx, "")
	}
	return channel, ctx.Err()
}
