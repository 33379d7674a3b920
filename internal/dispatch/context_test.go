package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBoundedContext(t *testing.T) {
	type key struct{}
	parents := func() context.Context { return context.WithValue(context.Background(), key{}, "value") }
	for how, use := range map[string]func(context.Context){
		"untouched":   func(context.Context) {},
		"waited on":   func(ctx context.Context) { ctx.Done() },
		"with child":  func(ctx context.Context) { _, cancel := context.WithCancel(ctx); defer cancel() },
		"cause asked": func(ctx context.Context) { _ = context.Cause(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := WithBound(parents(), time.Second)
				defer ctx.Cancel()
				use(ctx)
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				require.Equal(t, time.Now().Add(time.Second), deadline)
				require.Equal(t, "value", ctx.Value(key{}))
				require.NoError(t, ctx.Err())
				time.Sleep(time.Second)
				synctest.Wait()
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
				<-ctx.Done()
			})
			synctest.Test(t, func(t *testing.T) {
				reason := errors.New("reason")
				parent, end := context.WithCancelCause(parents())
				ctx := WithBound(parent, time.Second)
				defer ctx.Cancel()
				use(ctx)
				child, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
				end(reason)
				synctest.Wait()
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				require.ErrorIs(t, context.Cause(ctx), reason)
				require.ErrorIs(t, context.Cause(child), reason)
			})
			synctest.Test(t, func(t *testing.T) {
				ctx := WithBound(parents(), time.Second)
				use(ctx)
				ctx.Cancel()
				ctx.Cancel()
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), context.Canceled)
			})
		})
	}
	sooner, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	deadline, _ := sooner.Deadline()
	within := WithBound(sooner, time.Minute)
	defer within.Cancel()
	same, _ := within.Deadline()
	require.Equal(t, deadline, same)
}
