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

// If a holder outlasts Close, its release frees the name as soon as AtLeast has passed.
func TestTrap_T272_AHolderThatOutlastsCloseKeepsTheNameForAtLeast(t *testing.T) {
	for what, c := range map[string]struct {
		ttl, work, stays time.Duration
	}{
		"before the time":                {10 * time.Second, 20 * time.Second, 40 * time.Second},
		"with a longer TTL":              {5 * time.Minute, 20 * time.Second, 40 * time.Second},
		"after the time, by the old TTL": {5 * time.Minute, 70 * time.Second, 0},
		"of an infinite lease":           {leasing.Infinite, 20 * time.Second, 40 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second})
				lease, err := manager.With(leasing.AcquireOptions{TTL: c.ttl, AtLeast: time.Minute}).Acquire(t.Context(), "name")
				require.NoError(t, err)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, manager.Close(ended), context.Canceled)
				<-time.After(c.work)
				require.ErrorIs(t, lease.Release(t.Context()), leasing.ErrLost)
				require.Equal(t, c.stays, freeAfter(t, provider, "name"))
			})
		})
	}
}

// A release after Close is retried for a short time. The log names an infinite lease that stays held.
func TestAReleaseAfterCloseIsRepeated(t *testing.T) {
	for failures, held := range map[int]bool{1: false, leasingtest.Always: true} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			lease, err := manager.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), "name")
			require.NoError(t, err)
			<-time.After(time.Second)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, manager.Close(ended), context.Canceled)
			provider.Use(leasingtest.Fail(leasingtest.Release, failures, leasing.ErrUnavailable))
			require.ErrorIs(t, lease.Release(t.Context()), leasing.ErrLost)
			require.Equal(t, held, isHeld(t, provider, "name"))
			require.Equal(t, held, strings.Contains(log.String(), "an infinite lease is not released"), log.String())
		})
	}
}
