package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

var versionScript = fencing.NewRedisScript("return redis.call('LLEN', KEYS[1])")

// redisSchema is a list of notes and a hash that the steps change.
type redisSchema struct {
	client                  *redis.Client
	fence                   *fencing.Redis
	fenceKey, list, subject string // keys in one slot
	scripts                 []*fencing.RedisScript
}

func openRedisSchema(p place.Place) (*redisSchema, error) {
	client, err := p.Redis()
	if err != nil {
		return nil, err
	}
	fence, err := place.RedisFence(client, fencing.RedisOptions{})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s := &redisSchema{client: client, fence: fence, fenceKey: p.Key("fence:" + resource), list: p.Key("notes"), subject: p.Key("subject")}
	for _, step := range steps {
		s.scripts = append(s.scripts, withNote(step.redis))
	}
	return s, nil
}

// withNote makes one script of the fence's check, a step and its note: Redis
// runs all of it or, if the token is stale, nothing.
func withNote(step string) *fencing.RedisScript {
	return fencing.NewRedisScript("local function step() " + step + " end\n" +
		"step()\nreturn redis.call('RPUSH', KEYS[2], ARGV[1])")
}

func (s *redisSchema) close() { _ = s.client.Close() }

func (s *redisSchema) create(context.Context) error { return nil }

func (s *redisSchema) version(ctx context.Context, token int64) (int, error) {
	reply, err := s.fence.Run(ctx, versionScript, s.fenceKey, token, []string{s.list})
	if err != nil {
		return 0, err
	}
	length, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("the version is a %T", reply)
	}
	return int(length), nil
}

// run calls midway first: no process can be killed in the middle of a script.
func (s *redisSchema) run(ctx context.Context, n note, midway func()) error {
	midway()
	line := fmt.Sprintf("%d %s %d", n.Number, n.Actor, n.Token)
	_, err := s.fence.Run(ctx, s.scripts[n.Number-1], s.fenceKey, n.Token, []string{s.subject, s.list}, line)
	return err
}

func (s *redisSchema) notes(ctx context.Context) (notes []note, err error) {
	lines, err := s.client.LRange(ctx, s.list, 0, -1).Result()
	for _, line := range lines {
		var n note
		if _, err := fmt.Sscan(line, &n.Number, &n.Actor, &n.Token); err != nil {
			return nil, fmt.Errorf("note %q: %w", line, err)
		}
		notes = append(notes, n)
	}
	return notes, err
}

func (s *redisSchema) complete(ctx context.Context) error {
	got, err := s.client.HGetAll(ctx, s.subject).Result()
	if err != nil {
		return err
	}
	if want := map[string]string{"outbox": "id", "inbox": "id", "topic_name": "1", "topic_version": "1"}; !maps.Equal(got, want) {
		return fmt.Errorf("it is %v, not %v", got, want)
	}
	return nil
}
