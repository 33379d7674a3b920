package lockers

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoWait is why a floor has no Acquire.
var errNoWait = errors.New("a bare command does not wait")

// bare is what the floors of bare commands have in common.
type bare struct {
	client *redis.Client
	ttl    time.Duration
}

func (b *bare) Acquire(context.Context, string) (Lock, error) { return nil, errNoWait }

func (b *bare) FreeIn(ctx context.Context, servers []*redis.Client, name string) (time.Duration, error) {
	return freeIn(ctx, servers, []string{name}, 1)
}

func (b *bare) Close() error { return b.client.Close() }

// unkept is a lock that nobody renews.
type unkept func(context.Context) error

func (unkept) Keep()                               {}
func (unkept) Kept() bool                          { return true }
func (u unkept) Release(ctx context.Context) error { return u(ctx) }

func openRawSet(_ context.Context, config Config) (Locker, error) {
	client, err := oneClient(config)
	if err != nil {
		return nil, err
	}
	return &setLocker{bare{client: client, ttl: config.TTL}}, nil
}

// setLocker is the lock of redis.io/docs/latest/develop/clients/patterns/distributed-locks,
// "Correct implementation with a single instance": without fencing tokens,
// memory of what was released, waiters, owners.
type setLocker struct{ bare }

var deleteIfMine = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

func (l *setLocker) Try(ctx context.Context, name string) (Lock, error) {
	mine := rand.Text()
	err := l.client.SetArgs(ctx, name, mine, redis.SetArgs{Mode: "NX", TTL: l.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return unkept(func(ctx context.Context) error {
		deleted, err := deleteIfMine.Run(ctx, l.client, []string{name}, mine).Int()
		if err == nil && deleted == 0 {
			return errGone
		}
		return err
	}), nil
}
