package torture_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms     = time.Millisecond
	minute = time.Minute
)

// virtual makes a run over the memory provider in virtual time. wrap, unless nil, wraps the
// provider.
func virtual(t *testing.T, options torture.Options, wrap func(leasing.Provider) leasing.Provider) *torture.Report {
	t.Helper()
	return virtualAt(t, options, nil, wrap)
}

// virtualAt is like virtual, with a separate clock for the backend.
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

// recordOf returns the record of a run after a round trip through a file.
func recordOf(t *testing.T, r *torture.Report) run.Record {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, r.WriteHistory(&file))
	record, err := run.ReadRecord(&file)
	require.NoError(t, err)
	return record
}
