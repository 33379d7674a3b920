package torture_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// TestMain also runs in worker processes. Each of these has its own leases.
func TestMain(m *testing.M) {
	torture.WorkerMain(func(context.Context) (leasing.Provider, error) {
		if why := os.Getenv("TORTURE_TEST_FAILURE"); why != "" {
			return nil, errors.New(why)
		}
		if os.Getenv("TORTURE_TEST_LEAK") != "" {
			go func() { select {} }()
		}
		return memlease.New(memlease.Options{}), nil
	})
	goleak.VerifyTestMain(m)
}

// virtual runs a torture over memory in virtual time. wrap, unless nil, is around
// the provider.
func virtual(t *testing.T, options torture.Options, wrap func(leasing.Provider) leasing.Provider) *torture.Report {
	t.Helper()
	return virtualAt(t, options, nil, wrap)
}

// virtualAt is virtual with a clock of the backend's own.
func virtualAt(t *testing.T, options torture.Options, clock func() time.Time, wrap func(leasing.Provider) leasing.Provider) (report *torture.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var provider leasing.Provider = memlease.New(memlease.Options{Now: clock})
		if wrap != nil {
			provider = wrap(provider)
		}
		options.Open = torture.Share(provider)
		var err error
		report, err = torture.Run(context.Background(), options)
		require.NoError(t, err)
	})
	return report
}

const minute = time.Minute
