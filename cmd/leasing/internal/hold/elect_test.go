//go:build unix

package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// A candidacy ends with exit code 0 only after its last term.
func TestTrap_T222_AnElectionThatEndsReportsIt(t *testing.T) {
	for _, c := range []struct {
		runner   runner
		code     int
		last     bool
		ends     bool
		exitCode int
	}{
		{runner{}, 0, false, false, 0},
		{runner{}, 0, true, true, 0},
		{runner{}, 3, false, false, 3},
		{runner{}, 3, true, true, 3},
		{runner{}, exit.Lost, false, false, exit.Lost},
		{runner{}, exit.NotFound, false, true, exit.NotFound},
		{runner{Command: supervise.Command{ProcessesLeft: true}}, 0, false, true, exit.Failed},
		{runner{Command: supervise.Command{ProcessesLeft: true}}, 0, true, true, exit.Failed},
		{runner{Command: supervise.Command{ProcessesLeft: true}}, 3, false, true, exit.Failed},
		{runner{Command: supervise.Command{EndedBy: unix.SIGTERM}}, 0, true, true, 128 + 15},
		{runner{Command: supervise.Command{EndedBy: unix.SIGINT}}, 0, false, true, 128 + 2},
	} {
		ends, exitCode := c.runner.candidacyEnd(c.code, c.last)
		require.Equal(t, c.ends, ends, "%+v", c)
		if ends {
			require.Equal(t, c.exitCode, exitCode, "%+v", c)
		}
	}
}
