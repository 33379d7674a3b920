package lockers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// ErrTaken is what Try returns while somebody else has the name.
var ErrTaken = errors.New("taken")

// Locker is one client of one library: what a program makes once. It is safe
// for concurrent use.
type Locker interface {
	// Try asks once for a name.
	Try(ctx context.Context, name string) (Lock, error)
	// Acquire waits for a name in the library's own way.
	Acquire(ctx context.Context, name string) (Lock, error)
	// FreeIn asks the servers how long it takes until a name can be had if its
	// holder does nothing more: 0 if it is free. Clients of all servers that
	// are not part of what is measured are given.
	FreeIn(ctx context.Context, servers []*redis.Client, name string) (time.Duration, error)
	// Close frees the client. Locks should have been released.
	Close() error
}

// Lock is a name held, for one goroutine.
type Lock interface {
	// Keep has the lock renewed until it is released, at 0.6 of the TTL unless
	// the library has its own mind. It is called once at most.
	Keep()
	// Kept says whether the lock is still held, as far as the library tells.
	Kept() bool
	// Release gives the lock up.
	Release(ctx context.Context) error
}

// Config is what all lockers of a run have in common.
type Config struct {
	URL     string // of one Redis, or of several that are independent
	TTL     time.Duration
	Counter *wire.Counter // of what is sent; nil counts nothing
}

// Peer is a library, or a floor that none can beat.
type Peer struct {
	Name  string
	About string
	// Servers is how many independent Redis it runs on; 0 for a lock in memory.
	Servers int
	// Waits says that it can wait for a name.
	Waits bool
	// Expires says that the server ends its locks.
	Expires bool
	// Renews says that its locks can be kept.
	Renews bool
	Open   func(context.Context, Config) (Locker, error)
}

// All are the peers, in the order in which they are shown.
var All = []Peer{
	{Name: "leasing", About: "this library, metrics on", Servers: 1, Waits: true, Expires: true, Renews: true, Open: openLeasing},
	{Name: "redislock", About: "bsm/redislock, retry every 100 ms", Servers: 1, Waits: true, Expires: true, Renews: true, Open: openRedislock},
	{Name: "redsync", About: "go-redsync/redsync, its default retry of 50 to 250 ms", Servers: 1, Waits: true, Expires: true, Renews: true, Open: openRedsync},
	{Name: "rueidislock", About: "rueidislock, its default majority of 2 in 3 keys", Servers: 1, Waits: true, Expires: true, Renews: true, Open: openRueidislock(2)},
	{Name: "rueidislock-1", About: "rueidislock with KeyMajority 1, as its README advises for one Redis", Servers: 1, Waits: true, Expires: true, Renews: true, Open: openRueidislock(1)},
	{Name: "leasing-redlock", About: "this library on 3 independent Redis, metrics on", Servers: 3, Waits: true, Expires: true, Renews: true, Open: openLeasing},
	{Name: "redsync-redlock", About: "redsync on 3 independent Redis", Servers: 3, Waits: true, Expires: true, Renews: true, Open: openRedsync},
	{Name: "raw-script", About: "floor: bare EVALSHA of this library's script by go-redis", Servers: 1, Expires: true, Open: openRawScript},
	{Name: "raw-set", About: "floor: SET NX PX and a compare-and-delete script by go-redis", Servers: 1, Expires: true, Open: openRawSet},
	{Name: "mutex", About: "floor: sync.Mutex", Waits: true, Open: openMutex},
	{Name: "queue", About: "floor: a local mutex that serves in order of arrival", Waits: true, Open: openQueue},
}
