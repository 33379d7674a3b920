package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Around is a client's hook that wraps its calls: a call sends a whole pipeline, or a lone command.
type Around func(ctx context.Context, cmds []redis.Cmder, send func(ctx context.Context) error) error

// DialHook does not wrap dials.
func (a Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook wraps the call of a lone command.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook wraps the call of a pipeline.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}
