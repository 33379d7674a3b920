package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Around is a hook of a client that makes its calls: one call for a whole pipeline, or for a lone command.
type Around func(ctx context.Context, cmds []redis.Cmder, send func(ctx context.Context) error) error

// DialHook leaves connections alone.
func (a Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook makes the call of a lone command.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook makes the calls of a pipeline.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}
