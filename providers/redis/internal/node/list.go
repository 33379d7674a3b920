package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

const (
	// minScan and maxScan limit the number of keys that a SCAN looks at: the server
	// serves no other request during a SCAN.
	minScan, maxScan = 10, 1000
	// maxScans limits the number of SCANs for a page. A page may end at this limit before
	// it is full, since there may be few names among many other keys.
	maxScans = 64
)

// Listing is one page of a listing by SCAN, over the keys of names.
type Listing struct {
	Req     abstractions.ListRequest
	Naming  script.Naming
	Servers int    // the number of servers, whose order is stable
	Which   string // identifies the set of servers, if it can change

	// Scan returns the keys of a server from a cursor on, and the next cursor.
	Scan func(ctx context.Context, at *Position, count int) (Scanned, error)
	// Records returns the records of names that were found at a server, in order, except
	// names that are listed at another server.
	Records func(ctx context.Context, at *Position, names []string) ([]abstractions.Record, error)
}

// Scanned is the reply to a SCAN; the next cursor is 0 at the end.
type Scanned struct {
	Keys []string
	Next uint64
}

// Page continues where the previous page ended. SCAN returns each key that exists
// during the whole listing, perhaps twice if the server shrinks its table meanwhile
// (redis.io/docs/latest/commands/scan, "Scan guarantees"). It often returns as many
// keys as requested, and sometimes more.
func (l *Listing) Page(ctx context.Context) (page abstractions.ListResult, err error) {
	at, err := l.begin()
	limit, seen := l.Req.PageLimit(), map[string]bool{}
	count, before, scans := clampScan(limit), 0, 0
	for err == nil {
		if len(at.Names) == 0 && at.scanned {
			at.Server, at.scanned = at.Server+1, false
		}
		listed := len(page.Records)
		switch {
		case len(at.Names) == 0 && at.Server >= l.Servers:
			return page, nil
		case listed == limit || len(at.Names) == 0 && scans == maxScans:
			page.Next = at.text()
			return page, nil
		case len(at.Names) > 0:
			err = l.add(ctx, &page, &at, seen, limit-listed)
		default:
			if scans++; scans > 1 {
				count = nextScan(count, listed-before, limit-listed)
			}
			before = listed
			err = l.find(ctx, &at, seen, count)
		}
	}
	return abstractions.ListResult{}, err
}

// begin decodes the position at which the previous page ended.
func (l *Listing) begin() (at Position, err error) {
	if l.Req.After == "" {
		return Position{Which: l.Which}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(l.Req.After)
	if err != nil || json.Unmarshal(data, &at) != nil || at.Server < 0 || at.Server > l.Servers {
		return at, &abstractions.InvalidError{Field: "After", Value: l.Req.After, Want: "Next of the page before"}
	}
	if at.Which != l.Which {
		return at, &abstractions.InvalidError{Field: "After", Value: l.Req.After, Want: "a listing from the start: the Cluster has other masters than for the page before"}
	}
	at.scanned = at.Cursor == 0 && len(at.Names) > 0
	at.Names = slices.DeleteFunc(at.Names, func(name string) bool { return !l.isWanted(name) })
	return at, nil
}

// isWanted is false for names with another prefix, and for foreign keys among
// our keys.
func (l *Listing) isWanted(name string) bool {
	return strings.HasPrefix(name, l.Req.Prefix) && abstractions.InspectRequest{Name: name}.Validate(abstractions.Capabilities{}) == nil
}

// add puts records of found names on the page.
func (l *Listing) add(ctx context.Context, page *abstractions.ListResult, at *Position, seen map[string]bool, room int) error {
	n := min(len(at.Names), room)
	records, err := l.Records(ctx, at, at.Names[:n])
	at.Names = at.Names[n:]
	for _, record := range records {
		seen[record.Name] = true
		// A name whose latest token is 0 was never held, or it was forgotten.
		if record.Held || record.Token > 0 && !l.Req.HeldOnly {
			page.Records = append(page.Records, record)
		}
	}
	return err
}

// find scans a part of a server for names that are not on this page yet.
func (l *Listing) find(ctx context.Context, at *Position, seen map[string]bool, count int) error {
	part, err := l.Scan(ctx, at, count)
	for _, key := range part.Keys {
		if name, ok := l.Naming.Name(key); ok && !seen[name] && l.isWanted(name) {
			at.Names = append(at.Names, name)
		}
	}
	slices.Sort(at.Names)
	at.Names = slices.Compact(at.Names)
	at.Cursor, at.scanned = part.Next, part.Next == 0
	return err
}

// nextScan returns the number of keys for the next SCAN: enough to fill the page if names
// are as dense as in the last SCAN.
func nextScan(count, found, room int) int {
	if found == 0 {
		return clampScan(2 * count)
	}
	return clampScan(count * room / found)
}

func clampScan(count int) int { return min(max(count, minScan), maxScan) }

// Scan asks a server for keys, starting at a cursor.
func (d *Node) Scan(ctx context.Context, master redis.Cmdable, cursor uint64, match string, count int) (Scanned, error) {
	return callDetached(ctx, d, func(ctx context.Context) (Scanned, error) {
		keys, next, err := master.Scan(ctx, cursor, match, int64(count)).Result()
		return Scanned{keys, next}, err
	})
}

// masters returns the servers that have keys. A Cluster's masters are sorted by address, so each page has
// the same order as long as the masters are the same. The digest of their addresses changes when another
// server becomes a master: its cursors differ from its predecessor's.
func (d *Node) masters(ctx context.Context) (masters []redis.Cmdable, which string, err error) {
	if d.cluster == nil {
		return []redis.Cmdable{d.Client}, "", nil
	}
	byAddr, err := callDetached(ctx, d, func(ctx context.Context) (map[string]redis.Cmdable, error) {
		var mu sync.Mutex
		byAddr := map[string]redis.Cmdable{}
		return byAddr, d.cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			byAddr[master.Options().Addr] = master
			return nil
		})
	})
	addrs := slices.Sorted(maps.Keys(byAddr))
	for _, addr := range addrs {
		masters = append(masters, byAddr[addr])
	}
	return masters, script.Digest(strings.Join(addrs, " ")), err
}

// Position is the point where a listing continues, encoded in ListResult.Next: a cursor of
// SCAN at one of the servers. A SCAN that returns more names than fit on the page is not
// repeated, since a repetition may return others: Position contains the remaining names,
// and so its length depends on these names.
type Position struct {
	Server int    `json:"s,omitempty"`
	Cursor uint64 `json:"c,omitempty"`
	// Names were found at the server and come next.
	Names []string `json:"n,omitempty"`
	// Which is Listing.Which.
	Which string `json:"w,omitempty"`
	// LeftOut has a bit for each server of Redlock that was left out.
	LeftOut uint64 `json:"m,omitempty"`

	scanned bool // the server was scanned to its end
}

// LeavesOut reports whether a server was left out.
func (p Position) LeavesOut(server int) bool { return p.LeftOut&(1<<server) != 0 }

func (p Position) text() string {
	data, _ := json.Marshal(p) // numbers and strings can always be encoded
	return base64.RawURLEncoding.EncodeToString(data)
}
