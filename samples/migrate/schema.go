package main

import (
	"context"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// schema is the resource that the lease protects. It checks the fencing token.
type schema interface {
	create(ctx context.Context) error // of the notes alone
	// version returns how many steps have run, and shows the schema the token.
	version(ctx context.Context, token int64) (int, error)
	// run runs a step and notes it, or leaves nothing behind. It calls midway
	// when half of the step is done.
	run(ctx context.Context, n note, midway func()) error
	// notes returns what has run, in that order.
	notes(ctx context.Context) ([]note, error)
	// complete checks that what the steps make is there.
	complete(ctx context.Context) error
	close()
}

// note says that a step has run.
type note struct {
	Number int // from 1
	Actor  string
	Token  int64
}

// step is one migration. In SQL none of them can run twice.
type step struct{ title, sql, redis string }

var steps = []step{
	{"create the outbox", "CREATE TABLE @outbox (id bigint PRIMARY KEY, payload text NOT NULL)",
		"return redis.call('HSET', KEYS[1], 'outbox', 'id')"},
	{"add a column for the topic", "ALTER TABLE @outbox ADD COLUMN topic text NOT NULL DEFAULT ''",
		"return redis.call('HSET', KEYS[1], 'topic', redis.call('HGET', KEYS[1], 'outbox') .. '+topic')"},
	{"create the inbox", "CREATE TABLE @inbox (id bigint PRIMARY KEY, handled boolean NOT NULL)",
		"return redis.call('HSET', KEYS[1], 'inbox', 'id')"},
	{"split topics into name and version", "ALTER TABLE @outbox RENAME COLUMN topic TO topic_name",
		"redis.call('HDEL', KEYS[1], 'topic') return redis.call('HSET', KEYS[1], 'topic_name', 1)"},
	{"add a column for the topic's version", "ALTER TABLE @outbox ADD COLUMN topic_version integer NOT NULL DEFAULT 1",
		"return redis.call('HSET', KEYS[1], 'topic_version', redis.call('HGET', KEYS[1], 'topic_name'))"},
}

// resource is what the fence calls the schema.
const resource = "schema"

func openSchema(p place.Place) (schema, error) {
	if p.OnRedis() {
		return openRedisSchema(p)
	}
	return openSQLSchema(p)
}
