package redisfence_test

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

// The adapter for go-redis, in the module integration, is compiled and run there against a real
// server; see Eval for its one line.
var eval redisfence.Eval = func(context.Context, string, []string, ...any) (any, error) { return nil, nil }

// A Fence sets a key under a lease.
func ExampleFence() {
	redis, err := redisfence.New(eval, redisfence.Options{})
	if err != nil {
		panic(err)
	}
	fence, err := redisfence.Key("report") // fence:{report}:report, in the same slot
	if err != nil {
		panic(err)
	}
	publish := func(ctx context.Context, lease *leasing.Lease) error {
		if err := redis.Advance(ctx, fence, lease.Token()); err != nil {
			return err
		}
		// From here on, former holders can't change data that is read.
		return redis.Set(ctx, fence, lease.Token(), "report", "text", time.Hour)
	}
	_ = publish // call it inside leasing.Do, with the context and the lease that Do passes to the function
}

// pay is a script that was written without fencing, with keys and arguments of its own.
var pay = redisfence.NewScript(`
local balance = redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
return balance
`)

// A script of your own runs atomically with the check.
func ExampleFence_Run() {
	redis, err := redisfence.New(eval, redisfence.Options{})
	if err != nil {
		panic(err)
	}
	payOut := func(ctx context.Context, lease *leasing.Lease, amount int64) (any, error) {
		keys := []string{"{ledger}:balance", "{ledger}:entries"}
		return redis.Run(ctx, pay, "fence:{ledger}", lease.Token(), keys, amount)
	}
	_ = payOut // call it inside leasing.Do, with the context and the lease that Do passes to the function
}
