// Package lockers puts this library and its peers behind one interface, with a file
// for each library. Each runs with the settings of its own documentation and, if it
// does not renew locks by itself, with the loop that its users write.
package lockers

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// ErrTaken is the error of Try while another client has the name.
var ErrTaken = errors.New("taken")

// errGone is the error of a release or a renewal that found the lock gone.
var errGone = errors.New("gone")

// Locker is one client of one library. A program makes a single client. It is safe for concurrent
// use.
type Locker interface {
	// Try makes one attempt to acquire a name.
	Try(ctx context.Context, name string) (Lock, error)
	// Acquire waits for a name in the library's own way.
	Acquire(ctx context.Context, name string) (Lock, error)
	// Close closes the client, after the release of all locks.
	Close() error
}

// Expiring is implemented by a Locker whose locks expire. FreeIn returns how long it takes,
// according to the servers, until a name is free if its holder makes no more requests: 0 if the
// name is free.
type Expiring interface {
	FreeIn(ctx context.Context, name string) (time.Duration, error)
}

// Lock is a held name. Only one goroutine uses it at a time.
type Lock interface {
	// Keep renews the lock until its release. It is called at most once.
	Keep()
	// Kept reports whether the lock is still held, as far as the library knows.
	Kept() bool
	// Release releases the lock.
	Release(ctx context.Context) error
}

// Config is the common configuration of all lockers of a measurement.
type Config struct {
	URL     string // of one server, or of several independent servers
	TTL     time.Duration
	Counter *wire.Counter // counts the commands sent; nil counts nothing
}

// Peer is a library, or the in-memory lock that is measured for comparison.
type Peer struct {
	Name     string
	Redlock  bool // it also runs on several independent servers
	Local    bool // an in-memory lock, not a library
	TryOnly  bool // it can't wait for a name
	WaitOnly bool // it stores nothing: its cycles are not comparable, and its locks end with their connection
	Open     func(context.Context, Config) (Locker, error)
}

// Backend is a kind of server or file that keeps locks.
type Backend struct {
	Variable string // environment variable with its URL; "" if a file suffices
	Peers    []Peer // in the order of the table's columns; the first is this library
	Open     func(url string) (Store, error)
}

// Store makes requests that are not part of a measurement. CPU, Memory and Log return
// 0 where the figure is not known.
type Store interface {
	Version(ctx context.Context) (string, error)
	CPU(ctx context.Context) (time.Duration, error)
	// Memory returns the number of bytes stored in memory, or in tables with their indexes.
	Memory(ctx context.Context) (float64, error)
	// Log returns the number of bytes ever written to the log for crash recovery.
	Log(ctx context.Context) (int64, error)
	// Sweep deletes the records of names that contain the given text.
	Sweep(ctx context.Context, text string) error
	Close() error
}

// All are the peers on Redis.
var All = []Peer{
	{Name: "leasing", Redlock: true, Open: openLeasing(openProvider)},
	{Name: "redislock", Open: openRedislock},
	{Name: "redsync", Redlock: true, Open: openRedsync},
	{Name: "rueidislock", Open: openRueidislock},
	{Name: "mutex", Local: true, Open: openMutex},
}

// Backends are the supported backends, by name.
var Backends = map[string]Backend{
	"redis": {
		Variable: "LEASING_TEST_REDIS", Peers: All,
		Open: func(url string) (Store, error) { return clients(url, nil) },
	},
	"postgres": {
		Variable: "LEASING_TEST_POSTGRES", Open: openPostgres,
		Peers: []Peer{
			{Name: "leasing", Open: openLeasing(openPostgresProvider)},
			{Name: "upsert", TryOnly: true, Open: openPostgresUpsert},
			{Name: "advisory", WaitOnly: true, Open: openAdvisory},
		},
	},
	"sqlite":        {Open: openSqlite, Peers: sqlitePeers("full")},
	"sqlite-normal": {Open: openSqlite, Peers: sqlitePeers("normal")},
}
