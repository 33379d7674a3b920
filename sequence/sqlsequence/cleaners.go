package sqlsequence

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// claimRounds limits the attempts of a claim, since a number may be closed while the claim waits for its row.
const claimRounds = 100

var errTooManyRounds = errors.New("claim: the numbers changed during each attempt")

// Claim gives a cleaner the next number to recover.
func (s *Store[Tx]) Claim(ctx context.Context, req seqstore.ClaimRequest) (seqstore.Entry, bool, error) {
	if err := req.Validate(); err != nil {
		return seqstore.Entry{}, false, err
	}
	for range claimRounds {
		var candidate int64
		var ahead bool
		if err := s.queryStream(ctx, s.sql.candidate, []any{req.Stream}, &candidate, &ahead); err != nil {
			return seqstore.Entry{}, false, err
		}
		if ahead { // the clock has gone back
			err := s.once(ctx, s.sql.rebase, []any{req.Stream}, func(scan) error { ahead = false; return nil })
			if err != nil {
				return seqstore.Entry{}, false, err
			}
			if !ahead {
				continue
			} // the remaining rows are locked by commits
		}
		if candidate == 0 {
			return seqstore.Entry{}, false, nil
		}
		if !s.lite {
			// A commit may hold the row's lock for as long as its caller's write takes. The claim waits for that lock
			// before it locks the stream's row, since otherwise no number could be leased during the wait.
			if err := s.once(ctx, s.sql.await, []any{req.Stream, candidate}, func(scan) error { return nil }); err != nil {
				return seqstore.Entry{}, false, err
			}
		}
		var r row
		var found bool
		err := s.within(ctx, false, func(on session, _ Tx) (err error) {
			if _, err = s.lock(ctx, on, req.Stream); err == nil {
				r, found, err = queryEntry(ctx, on, s.sql.claim, req.Stream, req.Owner, micros(req.Duration), candidate, req.ID)
			}
			return err
		})
		if err != nil || found {
			return r.Entry, err == nil, err
		}
	}
	return seqstore.Entry{}, false, s.explain(errTooManyRounds)
}

// ReleaseClaim lets a claim lapse.
func (s *Store[Tx]) ReleaseClaim(ctx context.Context, stream, id string) error {
	return s.once(ctx, s.sql.releaseClaim, []any{stream, id}, func(scan) error { return nil })
}

// Expire ends a lease or a claim.
func (s *Store[Tx]) Expire(ctx context.Context, stream string, seq int64) error {
	found := false
	err := s.once(ctx, s.sql.expire, []any{stream, seq}, func(scan) error { found = true; return nil })
	if err != nil || found {
		return err
	}
	return s.within(ctx, false, func(on session, _ Tx) error {
		_, err := s.entry(ctx, on, stream, seq)
		return err
	})
}

// ExtendClaim extends a claim.
func (s *Store[Tx]) ExtendClaim(ctx context.Context, req seqstore.RenewRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	args := []any{req.Stream, req.Seq, req.Token, micros(req.Duration)}
	return s.runGuarded(ctx, "extend the claim of", req.Stream, req.Seq, s.sql.extend, args, nil, nil)
}

// Resolve ends a claim.
func (s *Store[Tx]) Resolve(ctx context.Context, req seqstore.ResolveRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if err := req.Validate(); err != nil {
		return seqstore.Entry{}, err
	}
	if req.Outcome != seqstore.OutcomeRecovered {
		write = nil
	}
	change := func(on session) (row, time.Duration, bool, error) { return s.resolve(ctx, on, req) }
	return s.close(ctx, req.Stream, req.Seq, write, nil, change, func(on session, r row) (row, error) {
		if !seqstore.RecoveredBy(r.Entry, req) {
			return r, answer(seqstore.Late("resolve", r.Entry, r.now))
		}
		by, err := s.entry(ctx, on, req.Stream, r.ReplacedBy)
		if err != nil {
			return by, err
		}
		return by, answer(seqstore.Repeated(by.Entry, req.Payload, true, nil))
	})
}

// resolve checks the guard before it issues a number, so that a cleaner whose claim has lapsed does not use up a number.
func (s *Store[Tx]) resolve(ctx context.Context, on session, req seqstore.ResolveRequest) (r row, left time.Duration, found bool, err error) {
	claim := []any{req.Stream, req.Seq, req.Token}
	switch req.Outcome {
	case seqstore.OutcomeGap:
		r, found, err = queryEntry(ctx, on, s.sql.gap, append(claim, cmp.Or(req.Reason, seqstore.ReasonExpired), req.Uncleaned)...)
		return r, 0, found, err
	case seqstore.OutcomeFailed:
		most := cmp.Or(req.MaxAttempts, math.MaxInt32)
		r, found, err = queryEntry(ctx, on, s.sql.failed, append(claim, req.Reason, micros(req.RetryAfter), most, req.Uncleaned)...)
		return r, 0, found, err
	}
	locked, err := s.lockBy(ctx, on, s.sql.lockForClaim, req.Stream, req.Seq)
	if err != nil {
		return r, 0, false, err
	}
	old, found, err := queryEntry(ctx, on, s.sql.recovered, append(claim, locked.next, req.Uncleaned)...)
	if err != nil || !found {
		return r, 0, found, err
	}
	if _, err := hasRow(ctx, on, s.sql.allocate, req.Stream, locked.next); err != nil {
		return r, 0, false, err
	}
	r, found, err = queryEntry(ctx, on, s.sql.insert, req.Stream, locked.next, old.Op, old.Kind, req.Owner, req.Seq, blob(req.Payload))
	return r, old.ClaimUntil.Sub(old.now), found, err
}
