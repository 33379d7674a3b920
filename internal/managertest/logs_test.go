package managertest_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// The manager logs failed wake-ups once, and again only if they fail after a subscription that succeeded.
func TestFailedWakeupsAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	logged := func() int { return strings.Count(out.String(), "waiters are not woken") }
	virtual(t, leasing.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		acquire(t, m, nil)
		other := leasingtest.NewManagerOn(t, p, leasing.Options{Owner: "other", Logger: slog.New(slog.NewTextHandler(&out, nil))})
		wait := func(within time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := other.Acquire(ctx, name)
			require.Error(t, err)
			synctest.Wait()
		}
		p.Use(leasingtest.Hang(leasingtest.Wait, 1))
		wait(time.Millisecond)
		require.Zero(t, logged(), "the caller has left during the subscription")
		p.Use(leasingtest.Fail(leasingtest.Wait, leasingtest.Always, leasing.ErrUnavailable))
		wait(time.Minute)
		require.Equal(t, 1, logged())
		p.Clear()
		wait(time.Minute)
		p.Use(leasingtest.Fail(leasingtest.Wait, leasingtest.Always, leasing.ErrUnavailable))
		wait(time.Minute)
		require.Equal(t, 2, logged())
	})
}

// Close returns after the requests under way, and reports a provider that ignores the end of a request's context.
func TestCloseWaitsForRequestsThatIgnoreTheirContext(t *testing.T) {
	for late, logs := range map[time.Duration]int{50 * time.Millisecond: 0, time.Hour: 1} {
		var out bytes.Buffer
		virtual(t, leasing.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			returned := make(chan struct{})
			p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Acquire {
					<-ctx.Done()
					time.Sleep(late)
					close(returned)
					return ctx.Err()
				}
				return apply()
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = m.TryAcquire(ctx, name) }()
			synctest.Wait()
			cancel()
			_ = m.Close(context.Background())
			select {
			case <-returned:
				require.Zero(t, logs)
			default:
				require.Equal(t, 1, logs)
			}
			<-returned
		})
		require.Equal(t, logs, strings.Count(out.String(), "has not returned from a request"), late)
	}
}
