package place

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/distributedleasing/leasing/fencing"
)

// Redis opens a client for what is not leases. The samples keep their data on
// one server, so the URL is one that redis.ParseURL understands.
func (p Place) Redis() (*redis.Client, error) {
	options, err := redis.ParseURL(p.URL)
	if err != nil { // its text may quote the password
		return nil, errors.New("the URL is none that redis.ParseURL understands: redis://user:password@host:6379/0")
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1 // a write whose reply was lost is not sent again behind the sample's back
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

// RedisFence returns the check of fencing tokens by way of a client.
func RedisFence(client *redis.Client, options fencing.RedisOptions) (*fencing.Redis, error) {
	return fencing.NewRedis(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}, options)
}

// Key returns the name of a key of this run. All have one hash tag, so that a
// script may use several of them on a Redis Cluster.
func (p Place) Key(name string) string { return "{" + p.Scope + "}:" + name }

// clearRedis deletes the keys of the run: the provider's begin with its prefix,
// the others with Key's.
func (p Place) clearRedis(ctx context.Context) error {
	client, err := p.Redis()
	if err != nil {
		return err
	}
	for _, pattern := range []string{p.Scope + ":*", p.Key("*")} {
		keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			err = errors.Join(err, client.Del(ctx, keys.Val()).Err())
		}
		err = errors.Join(err, keys.Err())
	}
	return errors.Join(err, client.Close())
}
