package journal

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

var (
	noteScript = fencing.NewRedisScript("return redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])")
	hasScript  = fencing.NewRedisScript("return redis.call('HEXISTS', KEYS[1], ARGV[1])")
)

// retention is how long the fence of a resource that nobody uses is remembered:
// longer than a former holder can be paused. Resources here come and go, one for
// each message.
const retention = 24 * time.Hour

// redisJournal is a hash, and a fence for each resource, in one slot.
type redisJournal struct {
	client *redis.Client
	fence  *fencing.Redis
	place  place.Place
}

func openRedis(p place.Place) (*redisJournal, error) {
	client, err := p.Redis()
	if err != nil {
		return nil, err
	}
	fence, err := place.RedisFence(client, fencing.RedisOptions{Retention: retention})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redisJournal{client: client, fence: fence, place: p}, nil
}

func (j *redisJournal) Close() { _ = j.client.Close() }

func (j *redisJournal) Create(context.Context) error { return nil }

func (j *redisJournal) Note(ctx context.Context, resource string, token int64, done, by string) (bool, error) {
	return j.run(ctx, noteScript, resource, token, done, by)
}

func (j *redisJournal) Has(ctx context.Context, resource string, token int64, done string) (bool, error) {
	return j.run(ctx, hasScript, resource, token, done)
}

func (j *redisJournal) run(ctx context.Context, script *fencing.RedisScript, resource string, token int64, args ...any) (bool, error) {
	reply, err := j.fence.Run(ctx, script, j.place.Key("fence:"+resource), token, []string{j.place.Key("journal")}, args...)
	return reply == int64(1), err
}

func (j *redisJournal) All(ctx context.Context) (map[string]string, error) {
	return j.client.HGetAll(ctx, j.place.Key("journal")).Result()
}
