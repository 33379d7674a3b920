// Package memsequence keeps the streams of package sequence in this process's memory, for tests. It uses
// time.Now, so it runs in the virtual time of testing/synctest.
package memsequence

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/sequence/internal/watch"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Store is a sequence.Store in memory. It is safe for concurrent use. Make one with New.
type Store struct {
	turn    chan struct{} // one transaction at a time; a channel, since a mutex would stop virtual time
	streams map[string]*ledger
	manual  []seqstore.ManualItem
	hub     watch.Hub
}

// Tx is the transaction that a Write gets.
type Tx struct{ commits *[]func() }

// OnCommit makes the store call f when it applies the change, after the Write has returned nil and
// before the change becomes visible to others.
func (tx Tx) OnCommit(f func()) { *tx.commits = append(*tx.commits, f) }

// New makes an empty store.
func New() *Store {
	return &Store{turn: make(chan struct{}, 1), streams: map[string]*ledger{}}
}

var _ seqstore.Store[Tx] = (*Store)(nil)

// exclusively waits for its turn and then runs do, so that transactions run one at a time.
func (m *Store) exclusively(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.turn }()
	return do()
}

// withStream runs do exclusively, with the stream and the time.
func (m *Store) withStream(ctx context.Context, stream string, do func(l *ledger, now time.Time) error) error {
	return m.exclusively(ctx, func() error {
		l := m.streams[stream]
		if l == nil {
			return seqstore.UnknownStream(stream)
		}
		return do(l, time.Now())
	})
}

// query runs do like withStream, and returns its answer.
func query[T any](ctx context.Context, m *Store, stream string, do func(l *ledger, now time.Time) (T, error)) (answer T, err error) {
	err = m.withStream(ctx, stream, func(l *ledger, now time.Time) error {
		answer, err = do(l, now)
		return err
	})
	return answer, err
}

// request is a request that can be validated.
type request interface{ Validate() error }

// applyRule validates a request unless it is nil, runs a rule and the caller's write, and applies the
// change.
func (m *Store) applyRule(ctx context.Context, stream string, req request, write seqstore.Write[Tx], rule func(l *ledger, now time.Time) (change, error)) (result seqstore.Entry, err error) {
	if req != nil {
		if err := req.Validate(); err != nil {
			return result, err
		}
	}
	err = m.withStream(ctx, stream, func(l *ledger, now time.Time) error {
		c, err := rule(l, now)
		if err != nil {
			return err
		}
		result = c.result.Clone()
		if c.again {
			return nil
		}
		var commits []func()
		if write != nil {
			if err := write(ctx, Tx{&commits}, result); err != nil {
				return err
			}
		}
		l.apply(c)
		for _, f := range commits {
			f()
		}
		return nil
	})
	return result, err
}

// applyAndWake applies a rule, and wakes the waiters.
func (m *Store) applyAndWake(ctx context.Context, stream string, req request, write seqstore.Write[Tx], rule func(l *ledger, now time.Time) (change, error)) (seqstore.Entry, error) {
	result, err := m.applyRule(ctx, stream, req, write, rule)
	if err == nil {
		m.hub.Wake(stream)
	}
	return result, err
}

// CreateStream makes a stream.
func (m *Store) CreateStream(ctx context.Context, stream string) error {
	if err := seqstore.ValidateText("stream", stream, seqstore.MaxStreamBytes, false); err != nil {
		return err
	}
	return m.exclusively(ctx, func() error {
		if m.streams[stream] == nil {
			m.streams[stream] = newLedger(stream)
		}
		return nil
	})
}

// NewEpoch begins an epoch.
func (m *Store) NewEpoch(ctx context.Context, stream string) (string, error) {
	return query(ctx, m, stream, func(l *ledger, _ time.Time) (string, error) {
		l.epoch = abstractions.NewID()
		return l.epoch, nil
	})
}

// Lease issues a number.
func (m *Store) Lease(ctx context.Context, req seqstore.LeaseRequest) (seqstore.Entry, error) {
	return m.applyRule(ctx, req.Stream, &req, nil, func(l *ledger, now time.Time) (change, error) { return l.lease(now, req) })
}

// Renew extends a lease.
func (m *Store) Renew(ctx context.Context, req seqstore.RenewRequest) (granted time.Duration, err error) {
	_, err = m.applyRule(ctx, req.Stream, &req, nil, func(l *ledger, now time.Time) (c change, err error) {
		c, granted, err = l.renew(now, req)
		return c, err
	})
	return granted, err
}

// Save stores work.
func (m *Store) Save(ctx context.Context, req seqstore.SaveRequest) error {
	_, err := m.applyRule(ctx, req.Stream, &req, nil, func(l *ledger, now time.Time) (change, error) { return l.save(now, req) })
	return err
}

// Commit closes a number with its payload.
func (m *Store) Commit(ctx context.Context, req seqstore.CommitRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	return m.applyAndWake(ctx, req.Stream, &req, write, func(l *ledger, now time.Time) (change, error) { return l.commit(now, req) })
}

// CommitAndLease closes a number, and issues the next number.
func (m *Store) CommitAndLease(ctx context.Context, req seqstore.CommitRequest, next seqstore.LeaseRequest, write seqstore.Write[Tx]) (done, leased seqstore.Entry, err error) {
	if err := next.Validate(); err != nil {
		return done, leased, err
	}
	done, err = m.applyAndWake(ctx, req.Stream, &req, write, func(l *ledger, now time.Time) (c change, err error) {
		c, leased, err = l.commitAndLease(now, req, next)
		return c, err
	})
	if err != nil {
		leased = seqstore.Entry{}
	}
	return done, leased, err
}

// Release turns a number into a gap.
func (m *Store) Release(ctx context.Context, req seqstore.ReleaseRequest) error {
	_, err := m.applyAndWake(ctx, req.Stream, nil, nil, func(l *ledger, now time.Time) (change, error) { return l.release(now, req), nil })
	return err
}

// Claim gives a cleaner the next number to recover.
func (m *Store) Claim(ctx context.Context, req seqstore.ClaimRequest) (e seqstore.Entry, ok bool, err error) {
	e, err = m.applyRule(ctx, req.Stream, &req, nil, func(l *ledger, now time.Time) (c change, _ error) {
		c, ok = l.claim(now, req)
		return c, nil
	})
	return e, ok, err
}

// ReleaseClaim lets a claim lapse.
func (m *Store) ReleaseClaim(ctx context.Context, stream, id string) error {
	_, err := m.applyRule(ctx, stream, nil, nil, func(l *ledger, now time.Time) (change, error) { return l.releaseClaim(now, id), nil })
	return err
}

// ExtendClaim extends a claim.
func (m *Store) ExtendClaim(ctx context.Context, req seqstore.RenewRequest) error {
	_, err := m.applyRule(ctx, req.Stream, &req, nil, func(l *ledger, now time.Time) (change, error) { return l.extend(now, req) })
	return err
}

// Resolve ends a claim.
func (m *Store) Resolve(ctx context.Context, req seqstore.ResolveRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if req.Outcome != seqstore.OutcomeRecovered {
		write = nil
	}
	return m.applyAndWake(ctx, req.Stream, &req, write, func(l *ledger, now time.Time) (change, error) { return l.resolve(now, req) })
}

// Fill gives a gap its result.
func (m *Store) Fill(ctx context.Context, req seqstore.FillRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	return m.applyAndWake(ctx, req.Stream, &req, write, func(l *ledger, now time.Time) (change, error) { return l.fill(now, req) })
}

// Seal makes gaps final.
func (m *Store) Seal(ctx context.Context, stream string, upTo int64) (through int64, err error) {
	_, err = m.applyAndWake(ctx, stream, nil, nil, func(l *ledger, _ time.Time) (change, error) {
		var c change
		through, c, err = l.seal(upTo)
		if err == nil {
			l.sealed = through
		}
		return c, err
	})
	return through, err
}

// Forget deletes sealed entries.
func (m *Store) Forget(ctx context.Context, stream string, upTo int64, limit int) (int, error) {
	return query(ctx, m, stream, func(l *ledger, _ time.Time) (n int, _ error) {
		for seq := int64(1); seq <= min(upTo, l.sealed) && n < limit; seq++ {
			e, kept := l.entries[seq]
			if !kept || e.Uncleaned {
				continue
			}
			delete(l.entries, seq)
			delete(l.events, seq)
			if l.ops[e.Op] == seq {
				delete(l.ops, e.Op)
			}
			n++
		}
		return n, nil
	})
}

// EnterRecovery begins recovery mode.
func (m *Store) EnterRecovery(ctx context.Context, stream string, lasts time.Duration) (bool, error) {
	return query(ctx, m, stream, func(l *ledger, now time.Time) (bool, error) {
		entered := !l.inRecovery(now)
		l.recoveryUntil = latest(l.recoveryUntil, now.Add(lasts))
		return entered, nil
	})
}

// LeaveRecovery ends recovery mode.
func (m *Store) LeaveRecovery(ctx context.Context, stream string) (bool, error) {
	return query(ctx, m, stream, func(l *ledger, now time.Time) (bool, error) {
		left := l.inRecovery(now)
		l.recoveryUntil = time.Time{}
		return left, nil
	})
}

// Expire ends a lease or a claim.
func (m *Store) Expire(ctx context.Context, stream string, seq int64) error {
	_, err := m.applyRule(ctx, stream, nil, nil, func(l *ledger, now time.Time) (change, error) { return l.expire(now, seq) })
	return err
}

// Cleaned records that the hooks of a number have succeeded.
func (m *Store) Cleaned(ctx context.Context, stream string, seq int64) error {
	return m.withStream(ctx, stream, func(l *ledger, _ time.Time) error {
		if e, ok := l.entries[seq]; ok && e.Uncleaned {
			e.Uncleaned = false
			l.entries[seq] = e
		}
		return nil
	})
}

// Enqueue puts work into the manual queue.
func (m *Store) Enqueue(ctx context.Context, item seqstore.ManualItem) error {
	if err := item.Validate(); err != nil {
		return err
	}
	return m.withStream(ctx, item.Stream, func(_ *ledger, now time.Time) error {
		for _, other := range m.manual {
			if other.Stream == item.Stream && other.Seq == item.Seq && other.Op == item.Op && bytes.Equal(other.Payload, item.Payload) {
				return nil
			}
		}
		item.ID, item.CreatedAt, item.ResolvedAt, item.ResolvedBy = int64(len(m.manual)+1), now, time.Time{}, ""
		item.Payload = bytes.Clone(item.Payload)
		m.manual = append(m.manual, item)
		return nil
	})
}

// ResolveManual marks an item as decided.
func (m *Store) ResolveManual(ctx context.Context, id int64, by string) error {
	return m.exclusively(ctx, func() error {
		if id < 1 || id > int64(len(m.manual)) {
			return seqstore.ErrNotFound
		}
		if item := &m.manual[id-1]; item.ResolvedAt.IsZero() {
			item.ResolvedAt, item.ResolvedBy = time.Now(), by
		}
		return nil
	})
}

// Manual returns undecided items.
func (m *Store) Manual(ctx context.Context, stream string, limit int) ([]seqstore.ManualItem, error) {
	return query(ctx, m, stream, func(*ledger, time.Time) (items []seqstore.ManualItem, _ error) {
		for _, item := range m.manual {
			if item.Stream == stream && item.ResolvedAt.IsZero() && len(items) < limit {
				item.Payload = bytes.Clone(item.Payload)
				items = append(items, item)
			}
		}
		return items, nil
	})
}

// Read returns entries.
func (m *Store) Read(ctx context.Context, req seqstore.ReadRequest) (seqstore.Page, error) {
	return query(ctx, m, req.Stream, func(l *ledger, _ time.Time) (page seqstore.Page, _ error) {
		page.Through, page.Last, page.Epoch = l.watermark(), l.next-1, l.epoch
		if req.Sealed {
			page.Through = l.sealed
		}
		if before, kept := l.entries[req.From-1]; kept {
			before.Epoch = l.epoch
			page.Before = before.Mark()
		}
		for seq := max(req.From, 1); seq < l.next && len(page.Entries) < req.Limit; seq++ {
			e, kept := l.entries[seq]
			wanted := seq <= page.Through
			if req.Uncleaned {
				wanted = e.Uncleaned
			} else if len(req.States) > 0 {
				wanted = slices.Contains(req.States, e.State)
			}
			if e.Epoch = l.epoch; kept && wanted {
				page.Entries = append(page.Entries, e.Clone())
			}
		}
		return page, nil
	})
}

// FindManual returns an item.
func (m *Store) FindManual(ctx context.Context, id int64) (item seqstore.ManualItem, err error) {
	err = m.exclusively(ctx, func() error {
		if id < 1 || id > int64(len(m.manual)) {
			return seqstore.ErrNotFound
		}
		item = m.manual[id-1]
		item.Payload = bytes.Clone(item.Payload)
		return nil
	})
	return item, err
}

// Find returns the entry of an operation.
func (m *Store) Find(ctx context.Context, stream, op string) (seqstore.Entry, error) {
	return query(ctx, m, stream, func(l *ledger, _ time.Time) (seqstore.Entry, error) {
		found, ok := l.entries[l.ops[op]]
		if !ok {
			return found, seqstore.NotFound(stream, fmt.Sprintf("operation %q", op))
		}
		return found.Clone(), nil
	})
}

// Events returns the audit of some numbers.
func (m *Store) Events(ctx context.Context, stream string, from, to int64) ([]seqstore.Event, error) {
	return query(ctx, m, stream, func(l *ledger, _ time.Time) (all []seqstore.Event, _ error) {
		for seq := max(from, 1); seq <= to && seq < l.next; seq++ {
			all = append(all, l.events[seq]...)
		}
		return all, nil
	})
}

// Status returns a summary of a stream.
func (m *Store) Status(ctx context.Context, stream string) (seqstore.Status, error) {
	return query(ctx, m, stream, func(l *ledger, now time.Time) (seqstore.Status, error) { return l.status(now), nil })
}

// LowestOpen returns the lowest open number.
func (m *Store) LowestOpen(ctx context.Context, stream string) (int64, error) {
	return query(ctx, m, stream, func(l *ledger, _ time.Time) (int64, error) { return l.lowestOpen(), nil })
}

// Watch returns wake-ups.
func (m *Store) Watch(ctx context.Context, stream string) (<-chan struct{}, error) {
	return m.hub.Add(ctx, stream), ctx.Err()
}
