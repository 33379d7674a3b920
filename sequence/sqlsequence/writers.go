package sqlsequence

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Lease issues a number.
func (s *Store[Tx]) Lease(ctx context.Context, req seqstore.LeaseRequest) (seqstore.Entry, error) {
	if err := req.Validate(); err != nil {
		return seqstore.Entry{}, err
	}
	if err := s.check(ctx); err != nil {
		return seqstore.Entry{}, err
	}
	s.leasing.Add(1)
	defer s.leasing.Add(-1)
	l := newNumberRequest(req)
	if err := s.issue(ctx, l); err != nil { // the request may still be under way, and then it still uses l
		return seqstore.Entry{}, err
	}
	if l.entry.Seq != 0 {
		return l.result(), nil
	}
	args := l.args()
	var r row
	found := false
	// The operation has a number, or the stream is unknown.
	err := s.within(ctx, false, func(on session, _ Tx) error {
		var err error
		if r, found, err = queryEntry(ctx, on, s.sql.again, args[:3]...); err != nil || found {
			return err
		}
		if r, found, err = queryEntry(ctx, on, s.sql.find, req.Stream, req.Op); err != nil {
			return err
		}
		if !found {
			return answer(seqstore.UnknownStream(req.Stream))
		}
		return answer(&seqstore.EndedError{Entry: r.Bare()})
	})
	return r.Entry, err
}

// Renew extends a lease.
func (s *Store[Tx]) Renew(ctx context.Context, req seqstore.RenewRequest) (granted time.Duration, err error) {
	if err := req.Validate(); err != nil {
		return 0, err
	}
	err = s.runGuarded(ctx, "renew", req.Stream, req.Seq, s.sql.renew, []any{req.Stream, req.Seq, req.Token, micros(req.Duration)}, func(scan scan) error {
		var recovery bool
		err := scan(&recovery)
		granted = seqstore.Granted(req.Duration, recovery)
		return err
	}, nil)
	return granted, err
}

// runGuarded runs one statement that returns a row if its guard holds. If there is no row, runGuarded reads the entry and calls
// repeated, which reports whether the request was made before.
func (s *Store[Tx]) runGuarded(ctx context.Context, op, stream string, seq int64, statement string, args []any, each func(scan) error, repeated func(seqstore.Entry) bool) error {
	found := false
	err := s.once(ctx, statement, args, func(scan scan) error {
		found = true
		if each == nil {
			return nil
		}
		return each(scan)
	})
	if err != nil || found {
		return err
	}
	return s.within(ctx, false, func(on session, _ Tx) error {
		r, err := s.entry(ctx, on, stream, seq)
		if err != nil || repeated != nil && repeated(r.Entry) {
			return err
		}
		return answer(seqstore.Late(op, r.Entry, r.now))
	})
}

// Save stores work.
func (s *Store[Tx]) Save(ctx context.Context, req seqstore.SaveRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	args := []any{req.Stream, req.Seq, req.Token, string(req.Work.Phase), blob(req.Work.Data)}
	return s.runGuarded(ctx, "save work of", req.Stream, req.Seq, s.sql.save, args, nil, func(e seqstore.Entry) bool { return seqstore.SavedBy(e, req) })
}

// blob returns data as a parameter: nil becomes empty instead of NULL.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Commit closes a number with its payload.
func (s *Store[Tx]) Commit(ctx context.Context, req seqstore.CommitRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	return s.commit(ctx, req, nil, write)
}

// CommitAndLease closes a number, and issues the next number.
func (s *Store[Tx]) CommitAndLease(ctx context.Context, req seqstore.CommitRequest, next seqstore.LeaseRequest, write seqstore.Write[Tx]) (done, leased seqstore.Entry, err error) {
	if err := next.Validate(); err != nil {
		return done, leased, err
	}
	if err := s.check(ctx); err != nil {
		return done, leased, err
	}
	others := s.leasing.Add(1) > 1
	defer s.leasing.Add(-1)
	if others { // concurrent leases share a transaction, which is cheaper than a transaction for each
		done, err = s.commit(ctx, req, nil, write)
		return done, leased, err
	}
	l := newNumberRequest(next)
	done, err = s.commit(ctx, req, l, write)
	switch {
	case err == nil:
		leased = l.result()
	case l.refused: // the operation already has a number, so the commit was rolled back
		done, err = s.commit(ctx, req, nil, write)
	}
	return done, leased, err
}

// commit closes a number, and issues the next number unless next is nil.
func (s *Store[Tx]) commit(ctx context.Context, req seqstore.CommitRequest, next *numberRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if err := req.Validate(); err != nil {
		return seqstore.Entry{}, err
	}
	statement, combined := s.sql.commit, s.sql.commitAndLease
	if req.InOrder {
		statement, combined = s.sql.commitInOrder, s.sql.commitInOrderAndLease
	}
	args := []any{req.Stream, req.Seq, req.Token, blob(req.Payload)}
	var done row
	made := false
	each := func(scan scan, also ...any) error {
		var leased, expires, closed int64
		err := scan(append([]any{&done.Op, &done.Kind, &done.Owner, &leased, &expires, &closed, &done.Renewals}, also...)...)
		done.Stream, done.Seq, done.Token, done.State, done.Payload = req.Stream, req.Seq, req.Token, seqstore.Committed, blob(req.Payload)
		done.LeasedAt, done.ExpiresAt, done.ClosedAt, made = timeOf(leased), timeOf(expires), timeOf(closed), true
		return err
	}
	if write == nil && (next == nil || combined != "") { // one round trip, if the guard holds
		var err error
		if next == nil {
			err = s.once(ctx, statement, args, func(scan scan) error { return each(scan) })
		} else {
			err = s.once(ctx, combined, append(args[:4:4], next.args()[1:]...), func(scan scan) error {
				return next.scanIssued(func(dest ...any) error { return each(scan, dest...) })
			})
			next.refused = pgkit.IsDuplicate(err)
		}
		if err != nil {
			return seqstore.Entry{}, err
		}
		if made {
			s.wakeWaiters(req.Stream)
			return done.Entry, nil
		}
	}
	if write != nil {
		statement = s.sql.commitBounded
		if req.InOrder {
			statement = s.sql.commitInOrderBounded
		}
	}
	change := func(on session) (row, time.Duration, bool, error) {
		made = false
		err := on.query(ctx, statement, args, func(scan scan) error { return each(scan) })
		return done, done.ExpiresAt.Sub(done.ClosedAt), made, err
	}
	return s.close(ctx, req.Stream, req.Seq, write, next, change, func(on session, r row) (row, error) {
		refusal := seqstore.Late("commit", r.Entry, r.now)
		if req.InOrder && r.State == seqstore.Leased && r.Token == req.Token && r.ExpiresAt.After(r.now) {
			open := &seqstore.OpenError{Stream: req.Stream}
			if err := on.query(ctx, s.sql.lowest, []any{req.Stream}, func(scan scan) error { return scan(&open.Lowest) }); err != nil {
				return r, err
			}
			refusal = open
		}
		return r, answer(seqstore.Repeated(r.Entry, req.Payload, seqstore.CommittedBy(r.Entry, req.Token), refusal))
	})
}

// errOverrun ends a write that takes longer than its lease.
var errOverrun = errors.New("the write has taken longer than what was left of its lease")

// close runs a change that closes a number. If the change was made, it also runs the caller's write and the lease of the next
// number, unless they are nil, in the same transaction. change also returns the remaining time of the lease. If the change's
// guard has failed, close calls repeated with the current entry; repeated returns the result of an earlier request, or the
// refusal.
func (s *Store[Tx]) close(ctx context.Context, stream string, seq int64, write seqstore.Write[Tx], next *numberRequest, change func(on session) (row, time.Duration, bool, error), repeated func(on session, r row) (row, error)) (seqstore.Entry, error) {
	var r row
	look := func(on session) (err error) {
		if r, err = s.entry(ctx, on, stream, seq); err == nil {
			r, err = repeated(on, r)
		}
		return err
	}
	err := s.within(ctx, write != nil, func(on session, tx Tx) error {
		var left time.Duration
		var made bool
		var err error
		if r, left, made, err = change(on); err != nil {
			return err
		}
		if !made {
			return look(on)
		}
		if write != nil {
			bounded, cancel := context.WithTimeoutCause(ctx, max(left, shortestWrite), errOverrun)
			defer cancel()
			if err = write(bounded, tx, r.Entry); bounded.Err() != nil && ctx.Err() == nil {
				return &brokenError{errors.Join(errOverrun, err)}
			}
		}
		if err != nil || next == nil {
			return answer(err)
		}
		// This statement comes last, since others wait for the counter until this transaction ends.
		err = on.query(ctx, s.sql.leaseIfFree, next.args(), next.scanIssued)
		if next.refused = pgkit.IsDuplicate(err); err != nil && !next.refused {
			err = &commitError{err}
		}
		return err
	})
	var ending *commitError
	if errors.Is(err, seqstore.ErrRefused) && errors.As(err, &ending) { // the write itself may have committed the transaction
		if s.within(ctx, false, func(on session, _ Tx) error { return look(on) }) == nil {
			err = nil
		}
	}
	if err != nil {
		return seqstore.Entry{}, err
	}
	s.wakeWaiters(stream)
	return r.Entry, nil
}

// Release turns a number into a gap.
func (s *Store[Tx]) Release(ctx context.Context, req seqstore.ReleaseRequest) error {
	err := s.once(ctx, s.sql.release, []any{req.Stream, req.Seq, req.Token}, func(scan) error { return nil })
	if err == nil {
		s.wakeWaiters(req.Stream)
	}
	return err
}

// Fill gives a gap its result.
func (s *Store[Tx]) Fill(ctx context.Context, req seqstore.FillRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if err := req.Validate(); err != nil {
		return seqstore.Entry{}, err
	}
	change := func(on session) (row, time.Duration, bool, error) {
		locked, err := s.lockBy(ctx, on, s.sql.lockForFill, req.Stream)
		if err != nil {
			return row{}, 0, false, err
		}
		r, found, err := queryEntry(ctx, on, s.sql.fill, req.Stream, req.Seq, req.Op, locked.sealed, blob(req.Payload))
		return r, longestFill, found, err
	}
	return s.close(ctx, req.Stream, req.Seq, write, nil, change, func(_ session, r row) (row, error) {
		return r, answer(seqstore.Repeated(r.Entry, req.Payload, seqstore.FilledBy(r.Entry, req), seqstore.Late("fill", r.Entry, r.now)))
	})
}

// Seal makes gaps final.
func (s *Store[Tx]) Seal(ctx context.Context, stream string, upTo int64) (through int64, err error) {
	err = s.within(ctx, false, func(on session, _ Tx) error {
		locked, err := s.lock(ctx, on, stream)
		if err != nil {
			return err
		}
		var lowest int64
		if err := on.query(ctx, s.sql.lowest, []any{stream}, func(scan scan) error { return scan(&lowest) }); err != nil {
			return err
		}
		through = upTo
		if through == 0 {
			through = locked.next - 1
			if lowest != 0 {
				through = lowest - 1
			}
		}
		if lowest != 0 && lowest <= through {
			return answer(&seqstore.OpenError{Stream: stream, Lowest: lowest})
		}
		if through >= locked.next {
			return answer(seqstore.NotIssued(through))
		}
		if through = max(through, locked.sealed); through == locked.sealed {
			return nil
		}
		_, err = hasRow(ctx, on, s.sql.sealGaps, stream, through)
		if err == nil {
			_, err = hasRow(ctx, on, s.sql.seal, stream, through)
		}
		return err
	})
	if err == nil {
		s.wakeWaiters(stream)
	}
	return through, err
}

// Forget deletes sealed entries.
func (s *Store[Tx]) Forget(ctx context.Context, stream string, upTo int64, limit int) (n int, err error) {
	err = s.once(ctx, s.sql.forget, []any{stream, upTo, limit}, func(scan) error { n++; return nil })
	return n, err
}

// EnterRecovery begins recovery mode.
func (s *Store[Tx]) EnterRecovery(ctx context.Context, stream string, lasts time.Duration) (entered bool, err error) {
	was, err := s.setRecovery(ctx, stream, micros(lasts))
	return !was, err
}

// LeaveRecovery ends recovery mode.
func (s *Store[Tx]) LeaveRecovery(ctx context.Context, stream string) (left bool, err error) {
	return s.setRecovery(ctx, stream, -1)
}

func (s *Store[Tx]) setRecovery(ctx context.Context, stream string, us int64) (was bool, err error) {
	err = s.within(ctx, false, func(on session, _ Tx) error {
		locked, err := s.lock(ctx, on, stream)
		if err == nil {
			was = locked.recovery.After(locked.now)
			_, err = hasRow(ctx, on, s.sql.recovery, stream, us)
		}
		return err
	})
	return was, err
}

// NewEpoch begins an epoch.
func (s *Store[Tx]) NewEpoch(ctx context.Context, stream string) (string, error) {
	found, epoch := false, abstractions.NewID()
	err := s.once(ctx, s.sql.newEpoch, []any{stream, epoch}, func(scan) error { found = true; return nil })
	if err == nil && !found {
		err = seqstore.UnknownStream(stream)
	}
	return epoch, err
}

// Cleaned records that the hooks of a number have succeeded.
func (s *Store[Tx]) Cleaned(ctx context.Context, stream string, seq int64) error {
	return s.once(ctx, s.sql.cleaned, []any{stream, seq}, func(scan) error { return nil })
}

// Enqueue puts work into the manual queue.
func (s *Store[Tx]) Enqueue(ctx context.Context, item seqstore.ManualItem) error {
	if err := item.Validate(); err != nil {
		return err
	}
	args := []any{item.Stream, item.Seq, item.Op, digest(item.Payload), blob(item.Payload), item.Reason}
	return s.once(ctx, s.sql.enqueue, args, func(scan) error { return nil })
}

// ResolveManual marks an item as decided.
func (s *Store[Tx]) ResolveManual(ctx context.Context, id int64, by string) error {
	found := false
	err := s.once(ctx, s.sql.resolveManual, []any{id, by}, func(scan) error { found = true; return nil })
	if err == nil && !found {
		err = seqstore.ErrNotFound
	}
	return err
}
