package sqlsequence

import (
	"context"
	"encoding/json"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// numberRequest is a request for a number. Concurrent requests share a statement if the store has a Batcher: the counter is
// locked once for all of them, and the server syncs once.
type numberRequest struct {
	N     int    `json:"n"` // its index in the statement, from 0
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	Owner string `json:"owner"`
	For   int64  `json:"us"`

	batch.Outcome
	stream  string
	entry   seqstore.Entry // its number and times; 0 if the operation already has a number, or the stream is unknown
	refused bool           // a transaction was rolled back because the operation already has a number
}

func newNumberRequest(req seqstore.LeaseRequest) *numberRequest {
	return &numberRequest{Op: req.Op, Kind: req.Kind, Owner: req.Owner, For: micros(req.Duration), stream: req.Stream}
}

// result returns the issued entry, or the zero Entry.
func (l *numberRequest) result() seqstore.Entry {
	e := l.entry
	if e.Seq != 0 {
		e.Stream, e.Op, e.Kind, e.Owner, e.State, e.Token = l.stream, l.Op, l.Kind, l.Owner, seqstore.Leased, seqstore.FirstToken
	}
	return e
}

func (l *numberRequest) args() []any { return []any{l.stream, l.Op, l.For, l.Kind, l.Owner} }

// scanIssued scans a number and its times.
func (l *numberRequest) scanIssued(scan scan) error {
	var leased, expires int64
	err := scan(&l.entry.Seq, &leased, &expires)
	l.entry.LeasedAt, l.entry.ExpiresAt = timeOf(leased), timeOf(expires)
	return err
}

// issueTimeout bounds a request whose context has no earlier deadline.
const issueTimeout = time.Minute

// issue issues a number.
func (s *Store[Tx]) issue(ctx context.Context, l *numberRequest) error {
	if s.leases == nil {
		s.issueAll(ctx, []*numberRequest{l}, true)
		return l.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	if err := s.leases.Do(ctx, l); err != nil {
		return err
	}
	return l.Err()
}

// issueAll issues numbers. If one operation already has a number, each request gets a statement of
// its own.
func (s *Store[Tx]) issueAll(ctx context.Context, all []*numberRequest, _ bool) {
	streams := map[string][]*numberRequest{}
	for _, l := range all {
		streams[l.stream] = append(streams[l.stream], l)
	}
	for stream, all := range streams {
		if len(all) > 1 {
			if err := s.issueMany(ctx, stream, all); !pgkit.IsDuplicate(err) {
				for _, l := range all {
					l.Fail(s.explain(err))
				}
				continue
			}
		}
		for _, l := range all {
			err := s.change(ctx, s.sql.lease, l.args(), l.scanIssued)
			if pgkit.IsDuplicate(err) {
				l.entry, err = seqstore.Entry{}, nil
			}
			l.Fail(s.explain(err))
		}
	}
}

func (s *Store[Tx]) issueMany(ctx context.Context, stream string, all []*numberRequest) error {
	for n, l := range all {
		l.N = n
	}
	list, err := json.Marshal(all)
	if err != nil {
		return err
	}
	var rows []numberRequest // in any order
	err = s.change(ctx, s.sql.leases, []any{stream, string(list), len(all)}, func(scan scan) error {
		rows = append(rows, numberRequest{})
		return rows[len(rows)-1].scanIssued(scan)
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	first := rows[0].entry.Seq
	for _, r := range rows {
		first = min(first, r.entry.Seq)
	}
	for _, r := range rows {
		l := all[r.entry.Seq-first]
		l.entry.Seq, l.entry.LeasedAt, l.entry.ExpiresAt = r.entry.Seq, r.entry.LeasedAt, r.entry.ExpiresAt
	}
	return nil
}
