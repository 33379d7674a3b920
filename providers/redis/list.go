package redislease

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

const (
	// minScan and maxScan bound the keys that a SCAN looks at: the server does
	// nothing else meanwhile.
	minScan, maxScan = 10, 1000
	// maxScans bounds those of a page, which is incomplete then: names may be
	// few among many other keys.
	maxScans = 64
)

// listing is one page of a listing by SCAN: over the keys of names
// is known has one.
type listing struct {
	req     abstractions.ListRequest
	naming  naming
	servers int    // in an order that stays the same
	which   string // tells other servers apart, where they change

	// scan returns the keys of a server from a cursor on, and the next cursor.
	scan func(ctx context.Context, at *position, count int) (scanned, error)
	// own, unless nil, returns those of the names found at a server that are to
	// be told there.
	own func(ctx context.Context, at *position, names []string) ([]string, error)
	// records returns what is known of names, in order.
	records func(ctx context.Context, at *position, names []string) ([]abstractions.Record, error)
}

// scanned is the reply to a SCAN; the next cursor is 0 at the end.
type scanned struct {
	keys []string
	next uint64
}

// page goes on where the page before has ended. SCAN tells each key that is there
// all the time, often as many as it was asked for, sometimes more, and twice if the
// server shrinks its table meanwhile
// (redis.io/docs/latest/commands/scan, "Scan guarantees").
func (l *listing) page(ctx context.Context) (abstractions.ListResult, error) {
	var page abstractions.ListResult
	at, err := l.begin()
	if err != nil {
		return page, err
	}
	limit, seen := l.req.PageLimit(), map[string]bool{}
	for _, name := range at.Names {
		seen[name] = true
	}
	count := clampScan(limit)
	for scans := 0; ; scans++ {
		if err := l.fill(ctx, &page, &at, limit); err != nil {
			return abstractions.ListResult{}, err
		}
		switch {
		case len(at.Names) == 0 && at.Server == l.servers:
			return page, nil
		case len(page.Records) == limit || scans == maxScans:
			page.Next = at.text()
			return page, nil
		case len(at.Names) > 0: // some were left out
			continue
		}
		found, err := l.step(ctx, &at, seen, count)
		if err != nil {
			return abstractions.ListResult{}, err
		}
		count = nextScan(count, found, limit-len(page.Records))
	}
}

// begin reads where the page before has ended.
func (l *listing) begin() (position, error) {
	at, err := parsePosition(l.req.After, l.which)
	if err == nil && (at.Server < 0 || at.Server > l.servers) {
		err = badAfter(l.req.After, "Next of the page before")
	}
	at.Names = slices.DeleteFunc(at.Names, func(name string) bool { return !l.wanted(name) })
	return at, err
}

// wanted is false for names with another prefix, and for what somebody else has
// put beside our keys.
func (l *listing) wanted(name string) bool {
	return strings.HasPrefix(name, l.req.Prefix) && abstractions.InspectRequest{Name: name}.Validate(abstractions.Capabilities{}) == nil
}

// fill adds records of names that were found to the page.
func (l *listing) fill(ctx context.Context, page *abstractions.ListResult, at *position, limit int) error {
	n := min(len(at.Names), limit-len(page.Records))
	if n == 0 {
		return nil
	}
	records, err := l.records(ctx, at, at.Names[:n])
	if err != nil {
		return err
	}
	at.Names = at.Names[n:]
	for _, record := range records {
		// Nobody ever held a name whose latest token is 0, or it was forgotten.
		if record.Held || record.Token > 0 && !l.req.HeldOnly {
			page.Records = append(page.Records, record)
		}
	}
	return nil
}

// step scans a part of a server, and says how many names were found.
func (l *listing) step(ctx context.Context, at *position, seen map[string]bool, count int) (int, error) {
	part, err := l.scan(ctx, at, count)
	if err != nil {
		return 0, err
	}
	names := l.names(part.keys, seen)
	if l.own != nil && len(names) > 0 {
		if names, err = l.own(ctx, at, names); err != nil {
			return 0, err
		}
	}
	for _, name := range names { // those that are not told here may be told at a later server
		seen[name] = true
	}
	at.Names = append(at.Names, names...)
	if at.Cursor = part.next; at.Cursor == 0 {
		at.Server++
	}
	return len(names), nil
}

// names are those of the keys that were not on this page yet.
func (l *listing) names(keys []string, seen map[string]bool) []string {
	var names []string
	for _, key := range keys {
		name, ok := l.naming.name(key)
		if ok && !seen[name] && l.wanted(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nextScan is how many keys to look at next: as many as fill the page if names
// are as dense as they were among the last.
func nextScan(count, found, room int) int {
	if found == 0 {
		return clampScan(2 * count)
	}
	return clampScan(count * room / found)
}

func clampScan(count int) int { return min(max(count, minScan), maxScan) }

func (s *single) list(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	masters, err := s.node.masters(ctx)
	if err != nil {
		return abstractions.ListResult{}, err
	}
	l := listing{req: req, naming: s.naming, servers: len(masters), records: s.records}
	if s.node.cluster != nil {
		l.which = fingerprint(masters)
	}
	match := s.naming.pattern(req.Prefix)
	l.scan = func(ctx context.Context, at *position, count int) (scanned, error) {
		return s.node.scan(ctx, masters[at.Server], at.Cursor, match, count)
	}
	return l.page(ctx)
}

// records asks for all of the names in as few calls as possible.
func (s *single) records(ctx context.Context, _ *position, names []string) ([]abstractions.Record, error) {
	records := make([]abstractions.Record, len(names))
	for i, reply := range s.node.inspectAll(ctx, s.naming, names) {
		var err error
		if records[i], err = reply.record(names[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (d *node) inspectAll(ctx context.Context, n naming, names []string) []reply {
	ops := make([]operation, len(names))
	for i, name := range names {
		ops[i] = inspectOp(n.keys(name))
	}
	return d.doAll(ctx, ops)
}

func (d *node) scan(ctx context.Context, master redis.Cmdable, cursor uint64, match string, count int) (scanned, error) {
	return aside(ctx, d, func(ctx context.Context) (scanned, error) {
		keys, next, err := master.Scan(ctx, cursor, match, int64(count)).Result()
		return scanned{keys, next}, err
	})
}

// masters are the servers that have keys: those of a Cluster by their addresses,
// which is the same order for each page as long as they are the same.
func (d *node) masters(ctx context.Context) ([]redis.Cmdable, error) {
	if d.cluster == nil {
		return []redis.Cmdable{d.client}, nil
	}
	clients, err := aside(ctx, d, func(ctx context.Context) ([]*redis.Client, error) {
		var mu sync.Mutex
		var clients []*redis.Client
		err := d.cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, master)
			return nil
		})
		return clients, err
	})
	slices.SortFunc(clients, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	masters := make([]redis.Cmdable, len(clients))
	for i, client := range clients {
		masters[i] = client
	}
	return masters, err
}

// fingerprint tells when another server has become a master: its cursors are not
// its predecessor's.
func fingerprint(masters []redis.Cmdable) string {
	hash := fnv.New64a()
	for _, master := range masters {
		if client, ok := master.(*redis.Client); ok {
			_, _ = io.WriteString(hash, client.Options().Addr+" ") // never fails
		}
	}
	return fmt.Sprintf("%x", hash.Sum64())
}
