//go:build unix

package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// A candidacy ends with 0 only after the last of its terms.
func TestTrap_T222_AnElectionThatEndsReportsIt(t *testing.T) {
	for _, c := range []struct {
		work work
		code int
		last bool
		over bool
		with int
	}{
		{work{}, 0, false, false, 0},
		{work{}, 0, true, true, 0},
		{work{}, 3, false, false, 3},
		{work{}, 3, true, true, 3},
		{work{}, exit.Lost, false, false, exit.Lost},
		{work{}, exit.NotFound, false, true, exit.NotFound},
		{work{Command: supervise.Command{Kept: true}}, 0, false, true, exit.Failed},
		{work{Command: supervise.Command{Kept: true}}, 0, true, true, exit.Failed},
		{work{Command: supervise.Command{Kept: true}}, 3, false, true, exit.Failed},
		{work{Command: supervise.Command{Ended: unix.SIGTERM}}, 0, true, true, 128 + 15},
		{work{Command: supervise.Command{Ended: unix.SIGINT}}, 0, false, true, 128 + 2},
	} {
		over, with := c.work.over(c.code, c.last)
		require.Equal(t, c.over, over, "%+v", c)
		if over {
			require.Equal(t, c.with, with, "%+v", c)
		}
	}
}
