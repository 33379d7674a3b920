package descendants

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Both ways to find children agree.
func TestDescendantsAreFoundBothWays(t *testing.T) {
	script := exec.Command("sh", "-c", "sleep 40 & sleep 40 & echo $$ $!; wait")
	out, err := script.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, script.Start())
	t.Cleanup(func() {
		Visit(script.Process.Pid, 0, func(pid int) bool { return unix.Kill(pid, unix.SIGKILL) == nil })
		_ = script.Process.Kill()
		_ = script.Wait()
	})
	var shell, last int
	_, err = fmt.Fscan(out, &shell, &last)
	require.NoError(t, err)
	one, other := childrenByTask(shell), childrenByParent()(shell)
	require.Len(t, one, 2)
	require.Contains(t, one, last)
	require.ElementsMatch(t, one, other)
}
