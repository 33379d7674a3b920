package hold

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// An outage ends a wait only if the backend has never answered: its URL may be wrong.
func TestWaitInAnOutage(t *testing.T) {
	for _, c := range []struct {
		what  string
		fails func(look int) bool
		limit time.Duration
		want  error
		looks int
	}{
		{"from the beginning", func(int) bool { return true }, 0, leasing.ErrUnavailable, 1},
		{"for a while", func(look int) bool { return look > 1 && look < 5 }, 0, nil, 5},
		{"until the end of the wait", func(look int) bool { return look > 1 }, 1200 * time.Millisecond, leasing.ErrUnavailable, 3},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, provider := leasingtest.NewManager(t, leasing.Options{})
				lease, err := manager.Acquire(t.Context(), "name")
				require.NoError(t, err)
				defer func() { _ = lease.Release(context.Background()) }()
				provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
					if call.Op != leasingtest.Inspect {
						return apply()
					}
					if call.N == 2 {
						require.NoError(t, lease.Release(ctx))
					}
					if c.fails(call.N) {
						return leasing.ErrUnavailable
					}
					return apply()
				})
				var out bytes.Buffer
				a := &cli.App{Printer: output.Printer{Streams: output.Streams{Err: &out}}}
				err = wait(t.Context(), a, &cli.Backend{Manager: manager, Provider: provider}, "name", cli.After(c.limit))
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.looks, provider.Count(leasingtest.Inspect))
				if c.looks > 1 {
					require.Contains(t, out.String(), "backend unavailable")
				}
			})
		})
	}
}
