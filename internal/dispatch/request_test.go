package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/panics"
)

// backend is a provider whose call is a function.
type backend func(ctx context.Context, req string) (string, error)

func (b backend) call(ctx context.Context, req string) (string, error) { return b(ctx, req) }

// inbox is a LateReceiver.
type inbox struct {
	mu      sync.Mutex
	replies []string
}

func (i *inbox) RepliedLate(reply string, _ error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replies = append(i.replies, reply)
}

// requests returns the Requests of a provider, and a function that returns the logged texts.
func requests(t *testing.T, heedsContext bool) (r *Requests, logged func() []string) {
	t.Helper()
	var mu sync.Mutex
	var texts []string
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	return NewRequests(heedsContext, func(_ slog.Level, text string, _ ...any) {
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, text)
		}, func(f func()) { go f() }, done), func() []string {
			mu.Lock()
			defer mu.Unlock()
			return texts
		}
}

func TestSend(t *testing.T) {
	for _, heedsContext := range []bool{true, false} {
		r, logged := requests(t, heedsContext)
		ok := backend(func(_ context.Context, req string) (string, error) { return req + "!", nil })
		reply, err := Send(t.Context(), r, &Overdue{}, ok, backend.call, "hello", nil)
		require.NoError(t, err)
		require.Equal(t, "hello!", reply)

		bad := backend(func(context.Context, string) (string, error) { panic("a bug") })
		_, err = Send(t.Context(), r, &Overdue{}, bad, backend.call, "hello", nil)
		require.ErrorIs(t, err, panics.Err)
		require.False(t, abstractions.NotApplied(err), "the request may have been applied")
		require.Len(t, logged(), 1)
	}
}

func TestSendToAProviderThatEndsItsGoroutine(t *testing.T) {
	r, logged := requests(t, false)
	_, err := Send(t.Context(), r, &Overdue{}, backend(func(context.Context, string) (string, error) {
		runtime.Goexit()
		return "", nil
	}), backend.call, "hello", nil)
	require.ErrorIs(t, err, panics.Err)
	require.Len(t, logged(), 1)
}

// The caller leaves a provider that hangs, and the late reply reaches the receiver. At the limit, no further request is sent.
func TestSendToAProviderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := requests(t, false)
		var pending Overdue
		var late inbox
		hang, calls := make(chan struct{}), atomic.Int32{}
		p := backend(func(context.Context, string) (string, error) {
			calls.Add(1)
			<-hang
			return "late", errors.New("ignored")
		})
		for range 2 {
			ctx := WithBound(t.Context(), time.Second)
			began := time.Now()
			_, err := Send(ctx, r, &pending, p, backend.call, "hello", &late)
			require.ErrorIs(t, err, ErrOverdue)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second+ReplyGrace, time.Since(began))
			ctx.Cancel()
		}
		require.Equal(t, 2, pending.Count())
		_, err := Send(t.Context(), r, &pending, p, backend.call, "hello", &late)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.True(t, abstractions.NotApplied(err))
		require.EqualValues(t, 2, calls.Load())
		close(hang)
		synctest.Wait()
		require.Zero(t, pending.Count())
		require.Equal(t, []string{"late", "late"}, late.replies)
	})
}
