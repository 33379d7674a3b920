package lockers

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoWait is why this floor has no Acquire.
var errNoWait = errors.New("a bare command does not wait")

func openSet(_ context.Context, config Config) (Locker, error) {
	client, err := oneClient(config)
	if err != nil {
		return nil, err
	}
	return &setLocker{client: client, ttl: config.TTL}, nil
}

// setLocker is the lock of redis.io/docs/latest/develop/clients/patterns/distributed-locks,
// "Correct implementation with a single instance": without fencing tokens,
// memory of what was released, waiters, owners.
type setLocker struct {
	client *redis.Client
	ttl    time.Duration
}

var deleteIfMine = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

func (l *setLocker) Try(ctx context.Context, name string) (Lock, error) {
	lock := setLock{client: l.client, name: name, value: rand.Text()}
	err := l.client.SetArgs(ctx, name, lock.value, redis.SetArgs{Mode: "NX", TTL: l.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (l *setLocker) Acquire(context.Context, string) (Lock, error) { return nil, errNoWait }

func (l *setLocker) Close() error { return l.client.Close() }

type setLock struct {
	client      *redis.Client
	name, value string
}

func (setLock) Keep()      {}
func (setLock) Kept() bool { return true }

func (l setLock) Release(ctx context.Context) error {
	deleted, err := deleteIfMine.Run(ctx, l.client, []string{l.name}, l.value).Int()
	if err == nil && deleted == 0 {
		return errGone
	}
	return err
}
