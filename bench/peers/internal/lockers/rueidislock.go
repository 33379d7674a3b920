package lockers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// openRueidislock turns on NoLoopTracking, which rueidislock's README advises for Redis 7.0.5 and
// newer. The option is off by default, and then v1.0.79 extends a lock again each time it is
// notified of its own extension: 33,000 commands per second for one lock that no other client
// wants, from its first renewal on.
func openRueidislock(_ context.Context, config Config) (Locker, error) {
	nodes, err := nodes(config.URL)
	if err != nil {
		return nil, err
	}
	options := rueidis.ClientOption{
		InitAddress: []string{nodes[0].Addr}, Username: nodes[0].Username, Password: nodes[0].Password, SelectDB: nodes[0].DB,
	}
	if config.Counter != nil {
		options.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return config.Counter.Dial(dialer.DialContext)(ctx, "tcp", address)
		}
	}
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   options,
		KeyValidity:    config.TTL,
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, err
	}
	return &rueidisLocker{locks: locks}, nil
}

type rueidisLocker struct{ locks rueidislock.Locker }

func (l *rueidisLocker) Try(ctx context.Context, name string) (Lock, error) {
	held, release, err := l.locks.TryWithContext(context.WithoutCancel(ctx), name)
	return rueidisLocked(held, release, err)
}

// Acquire ends with ctx. The lock also ends with ctx, by rueidislock's design.
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

// FreeIn reads rueidislock's key, which is its prefix, a number and the name.
func (l *rueidisLocker) FreeIn(ctx context.Context, name string) (time.Duration, error) {
	client := l.locks.Client()
	left, err := client.Do(ctx, client.B().Pttl().Key("rueidislock:0:"+name).Build()).AsInt64()
	return time.Duration(max(0, left)) * time.Millisecond, err
}

func (l *rueidisLocker) Close() error {
	l.locks.Close()
	return nil
}

type rueidisLock struct {
	held    context.Context // ends with the lock
	release context.CancelFunc
}

// Keep does nothing: rueidislock renews by itself, at half the TTL.
func (l *rueidisLock) Keep() {}

func (l *rueidisLock) Kept() bool { return l.held.Err() == nil }

// Release returns when the key has been deleted. rueidislock does not report
// whether the key was still ours.
func (l *rueidisLock) Release(context.Context) error {
	kept := l.Kept()
	l.release()
	if !kept {
		return errGone
	}
	return nil
}
