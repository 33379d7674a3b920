package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// listTimeout bounds a listing's wait for one server of Redlock. It is longer than other waits,
// since names are listed twice when a server is left out.
const listTimeout = 3 * time.Second

// List returns each name at the first server that has the name, with the majority's record. A server that does
// not answer, or casts no vote since it has lost its data, is left out for the rest of the listing: names that
// it has returned before may then be listed twice. A listing of several pages may miss a name if a vote for it
// reaches an earlier server after the page that scanned that server: later servers then leave the name out. A
// listing of a single page misses no name in this way.
func (r *Redlock) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	u := union{r: r, match: r.Naming.Pattern(req.Prefix), first: req.After == ""}
	l := node.Listing{Req: req, Naming: r.Naming, Servers: len(r.nodes), Scan: u.scan, Records: u.records}
	return l.Page(ctx)
}

// union is a listing of the names on all servers.
type union struct {
	r     *Redlock
	match string
	first bool    // the first page, which still has the names that were listed before
	errs  []error // of servers left out on this page
}

func (u *union) scan(ctx context.Context, at *node.Position, count int) (node.Scanned, error) {
	if at.LeavesOut(at.Server) {
		return node.Scanned{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	d := u.r.nodes[at.Server]
	part, err := d.Scan(limited, d.Client, at.Cursor, u.match, count)
	if err != nil {
		return node.Scanned{}, u.leaveOut(ctx, at, at.Server, err)
	}
	return part, nil
}

// leaveOut continues without a server as long as a majority is left.
func (u *union) leaveOut(ctx context.Context, at *node.Position, server int, err error) error {
	at.LeftOut |= 1 << server
	u.errs = append(u.errs, u.r.label(server, err))
	switch {
	case ctx.Err() != nil:
		return failure.Of(ctx.Err())
	case len(u.r.nodes)-bits.OnesCount64(at.LeftOut) < u.r.quorum:
		return fmt.Errorf("%w: no majority answers: %w", abstractions.ErrUnavailable, errors.Join(u.errs...))
	}
	return nil
}

// records returns the majority's records of names that no earlier server has listed. On a later page, those are the names
// without a record on any earlier server. If the server that has listed a name has been left out since, the next server
// lists the name.
func (u *union) records(ctx context.Context, at *node.Position, names []string) ([]abstractions.Record, error) {
	ops := make([]script.Operation, len(names))
	for k, name := range names {
		ops[k] = u.r.Naming.Keys(name).Inspect()
	}
	p := u.r.ask(ctx, listTimeout, func(p *poll) bool {
		for i, asked := range p.asked {
			if asked > 0 && !at.LeavesOut(i) {
				return false
			}
		}
		return true
	}, ops...)
	for k := range ops {
		for i, reply := range p.of(k) {
			if _, err := reply.Record(""); err != nil && !at.LeavesOut(i) {
				if err := u.leaveOut(ctx, at, i, err); err != nil {
					return nil, err
				}
			}
		}
	}
	var records []abstractions.Record
	for k := range ops {
		listed := at.LeavesOut(at.Server)
		var known []abstractions.Record
		for i, reply := range p.of(k) {
			if record, err := reply.Record(names[k]); err == nil && !at.LeavesOut(i) {
				known = append(known, record)
				listed = listed || !u.first && i < at.Server && (record.Held || record.Token > 0)
			}
		}
		if !listed {
			records = append(records, u.r.record(names[k], known))
		}
	}
	return records, nil
}
