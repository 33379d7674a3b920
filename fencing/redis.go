package fencing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
)

// RedisEval runs a Lua script on Redis, once, and returns its reply as it is:
// a list as []any, a bulk string as string or []byte, nil as nil. Most clients
// need one line for it. With go-redis:
//
//	func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
//	}
//
// which sends the script's hash, and the script itself where the server does
// not know it; or client.Eval(ctx, script, keys, args...).Result(). With
// rueidis the same goes through the adapter of its package rueidiscompat.
//
// A script has one text for ever, so caches by text work. A client that sends a
// command again when a reply is lost may run a script twice. The scripts of
// this package bear that; does yours?
type RedisEval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// RedisOptions are the options of NewRedis. The zero value is a good one.
type RedisOptions struct {
	// Field, unless "", says that fences are fields of that name in hashes:
	// the resource is the hash, and carries its token itself. Deleting or
	// overwriting the hash then forgets the token.
	Field string
	// Retention, unless 0, lets Redis forget a fence that has been shown no
	// token for that long, in milliseconds, rounded up. From then on any token
	// is admitted, so it must be longer than a former holder can be paused:
	// think of days. It is for names that come and go; it can't be combined
	// with Field.
	Retention time.Duration
}

// Redis protects what is kept in Redis. A fence is a key that holds the
// highest token seen; each call checks it, remembers a larger one, and writes,
// in one script. Give the fence the slot of what it protects: see
// RedisFenceKey. It is immutable and safe for concurrent use.
//
// A fence is kept without a TTL unless there is a Retention. One that is gone
// protects nothing until the holder shows its token again, so:
//
//   - Don't set a TTL on it, and don't delete it with the value.
//   - Under a maxmemory-policy of allkeys-..., Redis may evict it, and under
//     volatile-... if it has a Retention. Use noeviction.
//   - FLUSHALL, and a restart without persistence, forget it with everything
//     it protects.
//   - After a failover that lost the last writes, value and fence are both as
//     they were before: a script is replicated as a whole. A former holder's
//     write may be admitted until the present one shows its token again.
//
// An error that matches neither leasing.ErrStale nor leasing.ErrInvalid leaves
// open whether the script ran. Pass the lease's context: once it has ended,
// nothing is sent, and the error matches its cause.
type Redis struct {
	eval      RedisEval
	field     string
	retention string // milliseconds
}

// NewRedis returns the protection of a Redis server, or Cluster. Nothing is sent.
func NewRedis(eval RedisEval, options RedisOptions) (*Redis, error) {
	if eval == nil {
		return nil, &leasing.InvalidError{Field: "eval", Value: "nil", Want: "a function that runs scripts: see RedisEval"}
	}
	retention, err := redisMilliseconds("RedisOptions.Retention", options.Retention)
	if err != nil {
		return nil, err
	}
	if options.Field != "" && options.Retention != 0 {
		return nil, &leasing.InvalidError{Field: "RedisOptions.Retention", Value: options.Retention, Want: "0 with a Field: the whole hash would go"}
	}
	return &Redis{eval: eval, field: options.Field, retention: retention}, nil
}

// Advance remembers the token, or returns a *StaleError if the fence has seen a
// larger one. Call it when the lease begins, before what is protected is read.
func (r *Redis) Advance(ctx context.Context, fence string, token int64) error {
	_, err := r.Run(ctx, redisAdvance, fence, token, nil)
	return err
}

// Set sets a key if the token is not stale, and returns a *StaleError if it is.
// The key lives for ttl, in milliseconds, rounded up; 0 keeps it.
func (r *Redis) Set(ctx context.Context, fence string, token int64, key, value string, ttl time.Duration) error {
	milliseconds, err := redisMilliseconds("ttl", ttl)
	if err != nil {
		return err
	}
	if err := r.checkApart(fence, key); err != nil {
		return err
	}
	_, err = r.Run(ctx, redisSet, fence, token, []string{key}, value, milliseconds)
	return err
}

// Delete deletes keys if the token is not stale, and returns how many there
// were, or a *StaleError. The fence stays, or a former holder could bring the
// keys back.
func (r *Redis) Delete(ctx context.Context, fence string, token int64, keys ...string) (removed int64, err error) {
	if err := r.checkApart(fence, keys...); err != nil {
		return 0, err
	}
	reply, err := r.Run(ctx, redisDelete, fence, token, keys)
	if err != nil {
		return 0, err
	}
	removed, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("fencing: redis script for %q: unexpected count, a %T", fence, reply)
	}
	return removed, nil
}

// Run runs a script if the token is not stale, and returns a *StaleError if it
// is, whose Resource is the fence. keys and args are what the script sees as
// KEYS and ARGV. It returns what the script does, the way the client converts
// it; Redis' nil is nil without an error.
func (r *Redis) Run(ctx context.Context, script *RedisScript, fence string, token int64, keys []string, args ...any) (any, error) {
	if err := r.validate(script, fence, token, keys); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	allKeys := append([]string{fence}, keys...)
	allArgs := append([]any{formatToken(token), r.field, r.retention}, args...)
	reply, err := r.eval(ctx, script.text, allKeys, allArgs...)
	if err != nil {
		return nil, fmt.Errorf("fencing: redis script for %q: %w", fence, because(ctx, err))
	}
	return redisResult(fence, token, reply)
}

func (r *Redis) validate(script *RedisScript, fence string, token int64, keys []string) error {
	if script == nil || script.text == "" {
		return &leasing.InvalidError{Field: "script", Value: "", Want: "one made by NewRedisScript"}
	}
	if fence == "" {
		return &leasing.InvalidError{Field: "fence", Value: fence, Want: "a key: see RedisFenceKey"}
	}
	if r.field == "" { // otherwise the hash is both
		if err := r.checkApart(fence, keys...); err != nil {
			return err
		}
	}
	return validateToken(token)
}

// checkApart keeps scripts from writing over the fence itself.
func (r *Redis) checkApart(fence string, keys ...string) error {
	if slices.Contains(keys, fence) {
		return &leasing.InvalidError{Field: "key", Value: fence, Want: "another one than the fence, which would be lost"}
	}
	return nil
}

// redisMilliseconds writes a duration as scripts take it. Less than Redis can
// count becomes its least, not "for ever".
func redisMilliseconds(field string, d time.Duration) (string, error) {
	if d < 0 {
		return "", &leasing.InvalidError{Field: field, Value: d, Want: "0, or more"}
	}
	milliseconds := d / time.Millisecond
	if d%time.Millisecond > 0 {
		milliseconds++
	}
	return strconv.FormatInt(int64(milliseconds), 10), nil
}
