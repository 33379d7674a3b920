// Package redisfence checks fencing tokens in Redis: one script checks the token
// and then writes. See package fencing for the reason. It works with any Redis
// client: you write the one-line [Eval].
//
//	fence, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
//	}, redisfence.Options{})
//	key, err := redisfence.Key("report") // the fence of the key "report"
//	err = fence.Set(ctx, key, lease.Token(), "report", text, 0)
//
// [Fence] sets and deletes keys, and runs your own [Script]. Call [Fence.Advance] when the lease
// begins: values read before that may still change.
package redisfence
