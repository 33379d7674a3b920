package lockers

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

func openRedsync(_ context.Context, config Config) (Locker, error) {
	clients, err := clients(config.URL, config.Counter)
	if err != nil {
		return nil, err
	}
	pools := make([]redsyncpool.Pool, len(clients))
	for i, client := range clients {
		pools[i] = goredis.NewPool(client)
	}
	return &redsyncLocker{Servers: clients, locks: redsync.New(pools...), ttl: config.TTL}, nil
}

type redsyncLocker struct {
	Servers
	locks *redsync.Redsync
	ttl   time.Duration
}

func (l *redsyncLocker) Try(ctx context.Context, name string) (Lock, error) {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(l.ttl))
	if err := mutex.TryLockContext(ctx); err != nil {
		if isTaken(err) {
			return nil, ErrTaken
		}
		return nil, err
	}
	return &redsyncLock{mutex: mutex, ttl: l.ttl}, nil
}

// Acquire begins again when redsync's 32 tries are used up.
func (l *redsyncLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(l.ttl))
	for {
		err := mutex.LockContext(ctx)
		if err == nil {
			return &redsyncLock{mutex: mutex, ttl: l.ttl}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// redsync also gives up an attempt after a twentieth of the TTL.
		if !isTaken(err) && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
	}
}

// isTaken reports whether an error means that another client has the lock. If each of three nodes
// was won by another client, or answered late, the error is ErrFailed or ErrNodeTaken.
func isTaken(err error) bool {
	var all *redsync.ErrTaken
	var one *redsync.ErrNodeTaken
	return errors.Is(err, redsync.ErrFailed) || errors.As(err, &all) || errors.As(err, &one)
}

type redsyncLock struct {
	keeper
	mutex *redsync.Mutex
	ttl   time.Duration
}

func (l *redsyncLock) Keep() { l.keep(l.ttl, l.renew) }

func (l *redsyncLock) renew(ctx context.Context) error {
	ok, err := l.mutex.ExtendContext(ctx)
	if !ok && (err == nil || isTaken(err)) {
		return errGone
	}
	return err
}

func (l *redsyncLock) Release(ctx context.Context) error {
	l.end()
	ok, err := l.mutex.UnlockContext(ctx)
	if !ok && err == nil {
		return errGone
	}
	return err
}
