package redisfence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/cause"
)

// Eval runs a Lua script on Redis, once, and returns its reply unchanged: a
// list as []any, a bulk string as string or []byte, nil as nil. Most clients
// need one line of code. With go-redis:
//
//	func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
//	}
//
// This sends the script's hash, and the script itself if the server does not
// know that hash. An alternative is client.Eval(ctx, script, keys,
// args...).Result(). With rueidis the same code works through the adapter of
// its package rueidiscompat.
//
// The text of a script never changes, so it can be cached by its text. A client
// that sends a command again when a reply is lost may run a script twice. The
// scripts of this package tolerate that, and your scripts must tolerate it as
// well.
type Eval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Options are the options of New. The zero value works.
type Options struct {
	// Field, unless "", stores each fence in that field of a hash: the
	// resource is the hash, and holds its own token. Deleting or overwriting
	// the hash then loses the token.
	Field string
	// Retention, unless 0, makes Redis delete a fence that has received no
	// token for that time, rounded up to milliseconds. From then on any token
	// is admitted, so Retention must be longer than any pause of a former
	// holder, such as several days. It is for short-lived names, and can't be
	// combined with Field.
	Retention time.Duration
}

// Fence protects keys in Redis. A fence is a key that holds the
// highest token seen; each call checks its own token against that, remembers a larger
// token, and writes, in one script. A fence must be in the same Cluster slot as the keys it protects: see Key.
// A Fence is immutable and safe for concurrent use.
//
// A fence has no TTL unless Options.Retention is set. A fence that was deleted does not protect its keys until
// the holder shows its token again, so:
//
//   - Don't set a TTL on it, and don't delete it with the value.
//   - Under a maxmemory-policy of allkeys-..., Redis may evict it, and under
//     volatile-... if it has a Retention. Use noeviction.
//   - FLUSHALL, and a restart without persistence, delete it with everything it protects.
//   - After a failover that lost the last writes, value and fence both have
//     their earlier state: a script is replicated as a whole. A former holder's
//     write may be admitted until the present holder shows its token once more.
//
// If the fence's key holds something other than a token, such as data of another
// application, the error matches leasing.ErrInvalid, and nothing was written.
// After an error that matches neither leasing.ErrInvalid nor leasing.ErrStale,
// it is unknown whether the script ran. Pass the lease's context: once it has
// ended, nothing is sent, and the error matches its cause.
type Fence struct {
	eval      Eval
	field     string
	retention string // milliseconds
}

// New returns a Fence for a Redis server, or Cluster. Nothing is sent.
func New(eval Eval, options Options) (*Fence, error) {
	if eval == nil {
		return nil, &leasing.InvalidError{Field: "eval", Value: "nil", Want: "a function that runs scripts: see Eval"}
	}
	retention, err := milliseconds("Options.Retention", options.Retention)
	if err != nil {
		return nil, err
	}
	if options.Field != "" && options.Retention != 0 {
		return nil, &leasing.InvalidError{Field: "Options.Retention", Value: options.Retention, Want: "0 with a Field, since the whole hash would expire"}
	}
	return &Fence{eval: eval, field: options.Field, retention: retention}, nil
}

// Advance remembers the token, or returns a *fencing.StaleError if the fence has seen a
// larger token. Call it when the lease begins, before you read the protected data.
func (r *Fence) Advance(ctx context.Context, fence string, token int64) error {
	_, err := r.Run(ctx, advance, fence, token, nil)
	return err
}

// Set sets a key if the token is not stale, and returns a *fencing.StaleError otherwise. The key
// expires after ttl, rounded up to milliseconds; 0 means never.
func (r *Fence) Set(ctx context.Context, fence string, token int64, key, value string, ttl time.Duration) error {
	milliseconds, err := milliseconds("ttl", ttl)
	if err != nil {
		return err
	}
	_, err = r.Run(ctx, set, fence, token, []string{key}, value, milliseconds)
	return err
}

// Delete deletes keys if the token is not stale, and returns how many it deleted, or
// a *fencing.StaleError. The fence stays; otherwise a former holder could recreate
// the keys.
func (r *Fence) Delete(ctx context.Context, fence string, token int64, keys ...string) (removed int64, err error) {
	reply, err := r.Run(ctx, del, fence, token, keys)
	if err != nil {
		return 0, err
	}
	removed, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("redisfence: script for %q: unexpected count, a %T", fence, reply)
	}
	return removed, nil
}

// Run runs a script if the token is not stale. Otherwise it returns a
// *fencing.StaleError whose Resource is the fence. The script sees keys and args as
// KEYS and ARGV. Run returns the script's result as the client converts it; a nil
// reply from Redis is returned as nil, without an error.
func (r *Fence) Run(ctx context.Context, script *Script, fence string, token int64, keys []string, args ...any) (any, error) {
	switch {
	case script == nil || script.text == "":
		return nil, &leasing.InvalidError{Field: "script", Value: "", Want: "one made by NewScript"}
	case fence == "":
		return nil, &leasing.InvalidError{Field: "fence", Value: fence, Want: "a key: see Key"}
	// Set and Delete would overwrite a fence that is among their keys. With a Field, a
	// script of the caller may write to the hash, which is both the fence and the resource.
	case slices.Contains(keys, fence) && (r.field == "" || script == set || script == del):
		return nil, &leasing.InvalidError{Field: "key", Value: fence, Want: "a key other than the fence, which would be overwritten"}
	}
	if err := fencing.Check("", token, 0); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	keys = append([]string{fence}, keys...)
	args = append([]any{strconv.FormatInt(token, 10), r.field, r.retention}, args...)
	reply, err := r.eval(ctx, script.text, keys, args...)
	if err != nil {
		return nil, fmt.Errorf("redisfence: script for %q: %w", fence, cause.Join(ctx, err))
	}
	return result(fence, token, reply)
}

// milliseconds formats a duration for a script, rounded up: a duration under 1 ms becomes 1 ms, and
// not 0, which means forever.
func milliseconds(field string, d time.Duration) (string, error) {
	if d < 0 {
		return "", &leasing.InvalidError{Field: field, Value: d, Want: "0, or more"}
	}
	milliseconds := d / time.Millisecond
	if d%time.Millisecond > 0 {
		milliseconds++
	}
	return strconv.FormatInt(int64(milliseconds), 10), nil
}
