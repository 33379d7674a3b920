package redislease

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// single is the topology of one node that decides alone: a server, the master
// that a Sentinel names, or a Cluster, where the master of a name's slot does.
type single struct {
	node   *node
	naming naming
}

func (s *single) acquire(ctx context.Context, req abstractions.AcquireRequest, c claim) (abstractions.Grant, error) {
	c.channel = s.node.waiters.channelOf(req.ID)
	op := acquireOp(s.naming.keys(req.Name), c)
	if err := s.node.do(ctx, &op); err != nil {
		return abstractions.Grant{}, err
	}
	token, err := op.reply.acquired(req.Name)
	if err != nil {
		return abstractions.Grant{}, err
	}
	s.node.waiters.served(req.ID)
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: req.TTL}, nil
}

// acquired reads the reply to an acquire.
func (r reply) acquired(name string) (token int64, err error) {
	token, l, err := r.number()
	if l == nil {
		return token, err
	}
	switch l.status {
	case statusSeen:
		held, err := l.refusal(name)
		if err != nil {
			return 0, err
		}
		return 0, held
	case statusEnded:
		return 0, fmt.Errorf("%w, or broken: this ID can't hold the name any more", abstractions.ErrReleased)
	}
	return 0, l.unexpected()
}

// refusal reads the particulars of statusSeen where that is why an acquire was refused.
func (l *list) refusal(name string) (*abstractions.HeldError, error) {
	record, reserved, err := l.seen(name)
	if err != nil {
		return nil, err
	}
	if !record.Held {
		record.Now = time.Time{}
	}
	return &abstractions.HeldError{Holder: record, RetryAfter: reserved}, nil
}

func (s *single) renew(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	ops := make([]operation, len(reqs))
	for i, req := range reqs {
		ops[i] = renewOp(s.naming, req)
	}
	replies := s.node.doAll(ctx, ops)
	results := make([]abstractions.RenewResult, len(reqs))
	for i, req := range reqs {
		if err := replies[i].renewed(); err != nil {
			results[i].Err = err
			continue
		}
		results[i].Grant = abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}
	}
	return results, nil
}

// renewed reads the reply to a renewal.
func (r reply) renewed() error {
	_, l, err := r.number()
	if l == nil {
		return err
	}
	if l.status == statusLost {
		lost := &abstractions.LostError{Reason: abstractions.LostReason(l.text())}
		if len(l.rest) > 0 {
			lost.BrokenBy, lost.BreakReason, _ = strings.Cut(l.text(), "\n")
		}
		if !l.bad {
			return lost
		}
	}
	return l.unexpected()
}

func (s *single) release(ctx context.Context, req abstractions.ReleaseRequest) error {
	op := releaseOp(s.naming.keys(req.Name), req.ID)
	if err := s.node.do(ctx, &op); err != nil {
		return err
	}
	return op.reply.done()
}

// done reads a reply that is 0 if all went well.
func (r reply) done() error {
	_, l, err := r.number()
	if l == nil {
		return err
	}
	return l.unexpected()
}

func (s *single) breakLease(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	op := breakOp(s.naming.keys(req.Name), req)
	if err := s.node.do(ctx, &op); err != nil {
		return abstractions.BreakResult{}, err
	}
	return op.reply.broken()
}

// broken reads the reply to a break.
func (r reply) broken() (abstractions.BreakResult, error) {
	_, l, err := r.number()
	if l == nil {
		return abstractions.BreakResult{}, err
	}
	switch l.status {
	case statusBroken:
		result := abstractions.BreakResult{WasHeld: l.int() == 1, Token: l.int(), Remaining: l.millis()}
		if !l.bad {
			return result, nil
		}
	case statusStale:
		if token := l.int(); !l.bad {
			return abstractions.BreakResult{}, fmt.Errorf("%w: the latest is %d", abstractions.ErrStale, token)
		}
	}
	return abstractions.BreakResult{}, l.unexpected()
}

func (s *single) inspect(ctx context.Context, name string) (abstractions.Record, error) {
	op := inspectOp(s.naming.keys(name))
	if err := s.node.do(ctx, &op); err != nil {
		return abstractions.Record{}, err
	}
	return op.reply.record(name)
}

// record reads the reply to an inspection.
func (r reply) record(name string) (abstractions.Record, error) {
	_, l, err := r.number()
	switch {
	case l == nil:
		return abstractions.Record{}, err
	case l.status != statusSeen:
		return abstractions.Record{}, l.unexpected()
	}
	record, _, err := l.seen(name)
	return record, err
}

func (s *single) wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return s.node.waiters.register(ctx, s.naming.keys(req.Name), req.ID)
}

func (s *single) ping(ctx context.Context) error { return s.node.ping(ctx) }

func (s *single) close() { s.node.close() }
