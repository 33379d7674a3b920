// Package lockers puts this library and its peers behind one interface, a file
// each, as its users would use it: with the settings of its own documentation,
// and where it renews nothing by itself, with the loop that its users write.
package lockers

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// ErrTaken is what Try returns while somebody else has the name.
var ErrTaken = errors.New("taken")

// errGone is what a release or a renewal returns that found the lock gone.
var errGone = errors.New("gone")

// Locker is one client of one library: what a program makes once. It is safe
// for concurrent use.
type Locker interface {
	// Try asks once for a name.
	Try(ctx context.Context, name string) (Lock, error)
	// Acquire waits for a name in the library's own way.
	Acquire(ctx context.Context, name string) (Lock, error)
	// Close frees the client. Locks should have been released.
	Close() error
}

// Expiring is a Locker whose locks expire. FreeIn asks the servers how long it
// takes until a name is free if its holder does nothing more: 0 if it is free.
type Expiring interface {
	FreeIn(ctx context.Context, name string) (time.Duration, error)
}

// Lock is a name held, for one goroutine.
type Lock interface {
	// Keep has the lock renewed until it is released. It is called once at most.
	Keep()
	// Kept says whether the lock is still held, as far as the library tells.
	Kept() bool
	// Release gives the lock up.
	Release(ctx context.Context) error
}

// Config is what all lockers of a measurement have in common.
type Config struct {
	URL     string // of one server, or of several that are independent
	TTL     time.Duration
	Counter *wire.Counter // of what is sent; nil counts nothing
}

// Peer is a library, or the lock in memory beside which it is shown.
type Peer struct {
	Name    string
	Redlock bool // it also runs on several independent servers
	Local   bool // it is no library, but a lock in memory
	Open    func(context.Context, Config) (Locker, error)
}

// All are the peers in the order of the table's columns. The first is this library.
var All = []Peer{
	{Name: "leasing", Redlock: true, Open: openLeasing},
	{Name: "redislock", Open: openRedislock},
	{Name: "redsync", Redlock: true, Open: openRedsync},
	{Name: "rueidislock", Open: openRueidislock},
	{Name: "mutex", Local: true, Open: openMutex},
}
