package redislease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// listTimeout is how long a listing waits for one server of Redlock.
const listTimeout = time.Second

// list tells each name at the first server that knows it, with the majority's
// record. A server that does not answer, or casts no vote since it has lost its
// data, is left out for the rest of the listing: names that it has told before
// may then be told again.
func (r *redlock) list(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	u := union{r: r, match: r.naming.pattern(req.Prefix)}
	l := listing{req: req, naming: r.naming, servers: len(r.nodes), scan: u.scan, own: u.own, records: u.records}
	return l.page(ctx)
}

// union is a listing of the names that any server knows.
type union struct {
	r     *redlock
	match string
	errs  []error // of servers that were left out on this page
}

func (u *union) scan(ctx context.Context, at *position, count int) (scanned, error) {
	if at.mute(at.Server) {
		return scanned{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	d := u.r.nodes[at.Server]
	part, err := d.scan(limited, d.client, at.Cursor, u.match, count)
	if err != nil {
		return scanned{}, u.leaveOut(ctx, at, at.Server, err)
	}
	return part, nil
}

// leaveOut goes on without a server as long as a majority is left.
func (u *union) leaveOut(ctx context.Context, at *position, server int, err error) error {
	at.Mute |= 1 << server
	u.errs = append(u.errs, u.r.label(server, err))
	left := 0
	for i := range u.r.nodes {
		if !at.mute(i) {
			left++
		}
	}
	switch {
	case ctx.Err() != nil:
		return failure(ctx.Err())
	case left < u.r.quorum:
		return fmt.Errorf("%w: no majority answers: %w", abstractions.ErrUnavailable, errors.Join(u.errs...))
	}
	return nil
}

// own leaves out what an earlier server knows, and tells.
func (u *union) own(ctx context.Context, at *position, names []string) ([]string, error) {
	known, err := u.ask(ctx, at, at.Server+1, names)
	if err != nil || at.mute(at.Server) {
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
func (u *union) records(ctx context.Context, at *position, names []string) ([]abstractions.Record, error) {
	known, err := u.ask(ctx, at, len(u.r.nodes), names)
	if err != nil {
		return nil, err
	}
	records := make([]abstractions.Record, len(names))
	for i, name := range names {
		var heard []abstractions.Record
		for server, record := range known[i] {
			if !at.mute(server) {
				heard = append(heard, record)
			}
		}
		records[i] = u.r.record(name, heard)
	}
	return records, nil
}

// ask asks the first so many servers what they know of names: a record for each
// name and server. Those of servers that are left out are empty.
func (u *union) ask(ctx context.Context, at *position, servers int, names []string) ([][]abstractions.Record, error) {
	known := make([][]abstractions.Record, len(names))
	for i := range known {
		known[i] = make([]abstractions.Record, servers)
	}
	for server, replies := range u.replies(ctx, *at, servers, names) {
		for i, reply := range replies {
			record, err := reply.record(names[i])
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
			if at.mute(server) {
				known[i][server] = abstractions.Record{}
			}
		}
	}
	return known, nil
}

func (u *union) replies(ctx context.Context, at position, servers int, names []string) [][]reply {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	replies := make([][]reply, servers)
	var all sync.WaitGroup
	for server := range replies {
		if !at.mute(server) {
			all.Go(func() { replies[server] = u.r.nodes[server].inspectAll(ctx, u.r.naming, names) })
		}
	}
	all.Wait()
	return replies
}
