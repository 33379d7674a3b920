package lockers

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

// redislockRetry is the pause of the example in redislock's documentation
// (ExampleClient_Obtain_retry, ExampleClient_Obtain_customDeadline).
const redislockRetry = 100 * time.Millisecond

func openRedislock(_ context.Context, config Config) (Locker, error) {
	servers, err := clients(config.URL, config.Counter)
	if err != nil {
		return nil, err
	}
	return &redislockLocker{Servers: servers, locks: redislock.New(servers[0]), ttl: config.TTL}, nil
}

type redislockLocker struct {
	Servers
	locks *redislock.Client
	ttl   time.Duration
}

func (l *redislockLocker) Try(ctx context.Context, name string) (Lock, error) {
	lock, err := l.locks.Obtain(ctx, name, l.ttl, nil)
	return l.lock(lock, err)
}

// Acquire adds a deadline to a context without one: otherwise redislock would wait
// for one TTL at most.
func (l *redislockLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 24*time.Hour)
	defer cancel()
	lock, err := l.locks.Obtain(ctx, name, l.ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(redislockRetry),
	})
	return l.lock(lock, err)
}

func (l *redislockLocker) lock(lock *redislock.Lock, err error) (Lock, error) {
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return &redislockLock{lock: lock, ttl: l.ttl}, nil
}

type redislockLock struct {
	keeper
	lock *redislock.Lock
	ttl  time.Duration
}

func (l *redislockLock) Keep() { l.keep(l.ttl, l.renew) }

func (l *redislockLock) renew(ctx context.Context) error {
	err := l.lock.Refresh(ctx, l.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errGone
	}
	return err
}

func (l *redislockLock) Release(ctx context.Context) error {
	l.end()
	return l.lock.Release(ctx)
}
