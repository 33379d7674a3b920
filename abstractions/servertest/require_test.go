package servertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// recordingTB is a test that records its outcome.
type recordingTB struct {
	testing.TB
	skipped, failed string
}

func (a *recordingTB) Helper()           {}
func (a *recordingTB) Skip(args ...any)  { a.skipped = fmt.Sprint(args...) }
func (a *recordingTB) Fatal(args ...any) { a.failed = fmt.Sprint(args...); panic(a) }

func TestAMissingServerSkipsTheTestOrFails(t *testing.T) {
	ask := func(variable string) (a *recordingTB, value string) {
		a = &recordingTB{TB: t}
		defer func() { _ = recover() }()
		return a, servertest.Require(a, variable)
	}
	t.Setenv("LEASING_TEST_REQUIRED", "")
	t.Setenv("LEASING_TEST_COSMOS_NPM", " ")
	t.Setenv("LEASING_TEST_CONSUL", "")
	t.Setenv("LEASING_TEST_SQLSERVER", "")
	a, _ := ask("LEASING_TEST_COSMOS_NPM")
	require.Contains(t, a.skipped, "scripts/with-servers cosmosnpm -- go test")
	t.Setenv("LEASING_TEST_REQUIRED", "1")
	a, _ = ask("LEASING_TEST_COSMOS_NPM")
	require.Contains(t, a.failed, "scripts/with-servers cosmosnpm -- go test")
	a, _ = ask("LEASING_TEST_CONSUL")
	require.Empty(t, a.failed)
	require.NotEmpty(t, a.skipped)
	a, _ = ask("LEASING_TEST_SQLSERVER")
	require.Empty(t, a.failed)
	require.NotContains(t, a.skipped, "with-servers", "no script starts SQL Server")
	t.Setenv("LEASING_TEST_CONSUL", "consul://host")
	a, value := ask("LEASING_TEST_CONSUL")
	require.Equal(t, "consul://host", value)
	require.Empty(t, a.skipped)
}
