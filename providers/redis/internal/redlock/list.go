package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// listTimeout is how long a listing waits for one server of Redlock: longer than others wait,
// since names are told twice when a server is left out.
const listTimeout = 3 * time.Second

// List tells each name at the first server that knows it, with the majority's
// record. A server that does not answer, or casts no vote since it has lost its
// data, is left out for the rest of the listing: names that it has told before
// may then be told again. A name that is acquired while the listing goes on may be missing:
// a vote that reaches an earlier server after that was scanned makes it that server's to tell.
func (r *Redlock) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	u := union{r: r, match: r.Naming.Pattern(req.Prefix)}
	l := node.Listing{Req: req, Naming: r.Naming, Servers: len(r.nodes), Scan: u.scan, Own: u.own, Records: u.records}
	return l.Page(ctx)
}

// union is a listing of the names that any server knows.
type union struct {
	r     *Redlock
	match string
	errs  []error // of servers that were left out on this page
}

func (u *union) scan(ctx context.Context, at *node.Position, count int) (node.Scanned, error) {
	if at.Muted(at.Server) {
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

// leaveOut goes on without a server as long as a majority is left.
func (u *union) leaveOut(ctx context.Context, at *node.Position, server int, err error) error {
	at.Mute |= 1 << server
	u.errs = append(u.errs, u.r.label(server, err))
	left := 0
	for i := range u.r.nodes {
		if !at.Muted(i) {
			left++
		}
	}
	switch {
	case ctx.Err() != nil:
		return failure.Of(ctx.Err())
	case left < u.r.quorum:
		return fmt.Errorf("%w: no majority answers: %w", abstractions.ErrUnavailable, errors.Join(u.errs...))
	}
	return nil
}

// own leaves out what an earlier server knows, and tells.
func (u *union) own(ctx context.Context, at *node.Position, names []string) ([]string, error) {
	known, err := u.ask(ctx, at, at.Server+1, names)
	if err != nil || at.Muted(at.Server) {
		return nil, err
	}
	var own []string
	for i, name := range names {
		told := false
		for _, record := range known[i][:at.Server] {
			told = told || record.Held || record.Token > 0
		}
		if !told {
			own = append(own, name)
		}
	}
	return own, nil
}

// records are what a majority says.
func (u *union) records(ctx context.Context, at *node.Position, names []string) ([]abstractions.Record, error) {
	known, err := u.ask(ctx, at, len(u.r.nodes), names)
	if err != nil {
		return nil, err
	}
	records := make([]abstractions.Record, len(names))
	for i, name := range names {
		var heard []abstractions.Record
		for server, record := range known[i] {
			if !at.Muted(server) {
				heard = append(heard, record)
			}
		}
		records[i] = u.r.record(name, heard)
	}
	return records, nil
}

// ask asks the first so many servers what they know of names: a record for each
// name and server. Those of servers that are left out are empty.
func (u *union) ask(ctx context.Context, at *node.Position, servers int, names []string) ([][]abstractions.Record, error) {
	known := make([][]abstractions.Record, len(names))
	for i := range known {
		known[i] = make([]abstractions.Record, servers)
	}
	for server, replies := range u.replies(ctx, *at, servers, names) {
		for i, reply := range replies {
			record, err := reply.Record(names[i])
			if err == nil {
				known[i][server] = record
				continue
			}
			if err := u.leaveOut(ctx, at, server, err); err != nil {
				return nil, err
			}
			break
		}
	}
	for server := range servers {
		for i := range known {
			if at.Muted(server) {
				known[i][server] = abstractions.Record{}
			}
		}
	}
	return known, nil
}

func (u *union) replies(ctx context.Context, at node.Position, servers int, names []string) [][]script.Reply {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	replies := make([][]script.Reply, servers)
	var all sync.WaitGroup
	for server := range replies {
		if !at.Muted(server) {
			all.Go(func() { replies[server] = u.r.nodes[server].InspectAll(ctx, u.r.Naming, names) })
		}
	}
	all.Wait()
	return replies
}
