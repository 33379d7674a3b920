package redislease

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T175: failed dials print nothing to standard error. go-redis itself would print a line for each, and thousands in an outage.
func TestTrap_T175_AnOutagePrintsNothing(t *testing.T) {
	const child = "LEASING_TEST_OUTAGE"
	if url := os.Getenv(child); url != "" {
		p := openTest(t, Options{URL: url})
		for range 10 {
			_, err := p.Acquire(t.Context(), claimOf("name"))
			require.ErrorIs(t, err, abstractions.ErrUnavailable)
		}
		return
	}
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1", "rediss://127.0.0.1:1", "unix:///nowhere.sock", "redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?mode=redlock"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v") //nolint:gosec // this test itself
		cmd.Env = append(os.Environ(), child+"="+url)
		var printed bytes.Buffer
		cmd.Stderr = &printed
		out, err := cmd.Output()
		require.NoError(t, err, string(out))
		require.Empty(t, printed.String(), url)
	}
}
