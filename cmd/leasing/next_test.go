//go:build linux

package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/setup"
)

// A user without a backend gets a command for each kind of backend, and the first of these commands
// works.
func TestTheDoctorGuidesTheFirstUse_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	runs := func(args ...string) (int, string) {
		cmd := asCommand(context.Background(), append(p.envWithoutURL(), "HOME="+p.folder, "XDG_STATE_HOME="+p.folder), args...)
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	code, out := runs("doctor")
	require.Equal(t, exit.No, code)
	require.Contains(t, out, "no backend: name one")
	for _, g := range setup.Guides {
		require.Contains(t, out, "leasing doctor --url '"+g.URL+"'")
	}
	code, out = runs("doctor", "--local")
	require.Zero(t, code, out)
	require.Contains(t, out, "leasing run --local --wait 1m jobs/first -- COMMAND")
	code, out = runs("run", "--local", "--wait", "1m", "jobs/first", "--", "echo", "done")
	require.Zero(t, code, out)
	require.Equal(t, "done\n", out)
}
