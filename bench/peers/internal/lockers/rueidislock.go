package lockers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// openRueidislock makes a Locker that needs that many of 2*majority-1 keys.
//
// NoLoopTracking is on, which its README advises for Redis 7.0.5 and newer. It is
// off by default, and then v1.0.79 extends a lock again on hearing of its own
// extension, as fast as it can: 33,000 commands per second for one lock that
// nobody else wants, from its first renewal on. To compare with that would be
// no use to anybody.
func openRueidislock(majority int32) func(context.Context, Config) (Locker, error) {
	return func(_ context.Context, config Config) (Locker, error) {
		nodes, err := Nodes(config.URL)
		if err != nil {
			return nil, err
		}
		options := rueidis.ClientOption{Username: nodes[0].Username, Password: nodes[0].Password, SelectDB: nodes[0].DB}
		for _, node := range nodes {
			options.InitAddress = append(options.InitAddress, node.Addr)
		}
		if config.Counter != nil {
			options.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return config.Counter.Dial(dialer.DialContext)(ctx, "tcp", address)
			}
		}
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   options,
			KeyValidity:    config.TTL,
			KeyMajority:    majority,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, err
		}
		return &rueidisLocker{locks: locks, majority: int(majority)}, nil
	}
}

type rueidisLocker struct {
	locks    rueidislock.Locker
	majority int
}

func (l *rueidisLocker) Try(ctx context.Context, name string) (Lock, error) {
	held, release, err := l.locks.TryWithContext(context.WithoutCancel(ctx), name)
	return rueidisLocked(held, release, err)
}

// Acquire ends with ctx, and the lock with it: that is how rueidislock has it.
func (l *rueidisLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	held, release, err := l.locks.WithContext(ctx, name)
	return rueidisLocked(held, release, err)
}

func rueidisLocked(held context.Context, release context.CancelFunc, err error) (Lock, error) {
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return &rueidisLock{held: held, release: release}, nil
}

// FreeIn knows rueidislock's keys: its prefix, a number, the name.
func (l *rueidisLocker) FreeIn(ctx context.Context, servers []*redis.Client, name string) (time.Duration, error) {
	var keys []string
	for i := range 2*l.majority - 1 {
		keys = append(keys, fmt.Sprintf("rueidislock:%d:%s", i, name))
	}
	return freeIn(ctx, servers, keys, l.majority)
}

func (l *rueidisLocker) Close() error {
	l.locks.Close()
	return nil
}

type rueidisLock struct {
	held    context.Context // ends with the lock
	release context.CancelFunc
}

// Keep has nothing to do: rueidislock renews by itself, at half the TTL.
func (l *rueidisLock) Keep() {}

func (l *rueidisLock) Kept() bool { return l.held.Err() == nil }

// Release returns when the keys have been deleted. rueidislock does not say
// whether they were still ours.
func (l *rueidisLock) Release(context.Context) error {
	kept := l.Kept()
	l.release()
	if !kept {
		return errGone
	}
	return nil
}
