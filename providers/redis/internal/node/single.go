package node

import (
	"cmp"
	"context"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// Single is the topology of one node that decides alone: a server, the master
// that a Sentinel names, or a Cluster, where the master of a name's slot decides.
type Single struct {
	*Node
	Naming script.Naming
}

// NewSingle makes a Single: see [New].
func NewSingle(client redis.UniversalClient, timely bool, n script.Naming) *Single {
	return &Single{New(client, timely, n), n}
}

func (s *Single) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	c := script.NewClaim(req)
	c.Place = s.Waiters.PlaceOf(req.ID)
	token, err := s.Do(ctx, s.Naming.Keys(req.Name).Acquire(c)).Acquired(req.Name)
	if err != nil {
		return abstractions.Grant{}, err
	}
	s.Waiters.Served(req.ID)
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: token, TTL: req.TTL}, nil
}

func (s *Single) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	var text strings.Builder
	text.Grow(128)
	if err := s.Do(ctx, s.Naming.Renew(&text, &req)).Renewed(); err != nil {
		return abstractions.Grant{}, err
	}
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}, nil
}

// RenewBatch renews in as few calls as possible.
func (s *Single) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	var texts strings.Builder
	texts.Grow(128 * len(reqs))
	s.DoAll(ctx, len(reqs), func(i int) script.Operation {
		return s.Naming.Renew(&texts, &reqs[i])
	}, func(i int, reply script.Reply) {
		if results[i].Err = reply.Renewed(); results[i].Err == nil {
			req := &reqs[i]
			results[i].Grant = abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}
		}
	})
	return results, nil
}

func (s *Single) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	return s.Do(ctx, s.Naming.Keys(req.Name).Release(req.ID)).Done()
}

func (s *Single) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return s.Do(ctx, s.Naming.Keys(req.Name).Break(req)).Broken()
}

func (s *Single) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return s.Do(ctx, s.Naming.Keys(req.Name).Inspect()).Record(req.Name)
}

// Wait registers a waiter, whose claim joins the queue with its next acquire.
func (s *Single) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return s.Waiters.Register(ctx, s.Naming.Keys(req.Name), req)
}

func (s *Single) Waiting(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	return s.Do(ctx, s.Naming.Keys(name).Waiting()).Waiting()
}

func (s *Single) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	masters, which, err := s.masters(ctx)
	if err != nil {
		return abstractions.ListResult{}, err
	}
	l := Listing{Req: req, Naming: s.Naming, Servers: len(masters), Which: which, Records: s.records}
	match := s.Naming.Pattern(req.Prefix)
	l.Scan = func(ctx context.Context, at *Position, count int) (Scanned, error) {
		return s.Scan(ctx, masters[at.Server], at.Cursor, match, count)
	}
	return l.Page(ctx)
}

// records inspects all of the names in as few calls as possible.
func (s *Single) records(ctx context.Context, _ *Position, names []string) ([]abstractions.Record, error) {
	records := make([]abstractions.Record, len(names))
	var failed error
	s.DoAll(ctx, len(names), func(i int) script.Operation {
		return s.Naming.Keys(names[i]).Inspect()
	}, func(i int, reply script.Reply) {
		record, err := reply.Record(names[i])
		records[i], failed = record, cmp.Or(failed, err)
	})
	if failed != nil {
		return nil, failed
	}
	return records, nil
}
