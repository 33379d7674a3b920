//go:build unix

package servertest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

const workerVariable = "SERVERTEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		work()
		return
	}
	goleak.VerifyTestMain(m)
}

// work is the main function of the worker processes of these tests: they print numbers, and end
// when nothing reads the output any more.
func work() {
	if os.Getenv(workerVariable) == "fail" {
		os.Exit(3)
	}
	for i := 0; ; i++ {
		if _, err := fmt.Println(i); err != nil {
			return
		}
		<-time.After(time.Millisecond)
	}
}

func spawn(t *testing.T, how string) (*servertest.Process, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+how)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = writer
	p, err := servertest.StartProcess(cmd)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, reader.Close())
	})
	return p, bufio.NewScanner(reader)
}

func TestPausedProcessStandsStill(t *testing.T) {
	p, lines := spawn(t, "count")
	require.True(t, lines.Scan())
	require.NoError(t, p.Pause())
	state := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			t.Skip("no /proc to see the state in")
		}
		var pid int
		var name, state string
		_, err = fmt.Sscan(string(stat), &pid, &name, &state)
		require.NoError(t, err)
		return state
	}
	require.Equal(t, "T", state(), "Pause has waited for that")
	require.NoError(t, p.Resume())
	require.Eventually(t, func() bool { return state() != "T" }, servertest.Timeout, time.Millisecond)
	require.True(t, lines.Scan())
}

func TestKilledProcessIsGoneWhenKillReturns(t *testing.T) {
	for _, paused := range []bool{false, true} {
		p, lines := spawn(t, "count")
		require.True(t, lines.Scan())
		if paused {
			require.NoError(t, p.Pause())
		}
		p.Kill()
		select {
		case <-p.Done():
		default:
			require.Fail(t, "it is still there")
		}
		require.NoError(t, ended(t, p))
		require.Error(t, p.Pause())
		for lines.Scan() { // drain the earlier output
			continue
		}
		require.NoError(t, lines.Err())
	}
}

func TestProcessThatFailsSaysSo(t *testing.T) {
	p, _ := spawn(t, "fail")
	exit := (*exec.ExitError)(nil)
	require.ErrorAs(t, ended(t, p), &exit)
	require.Equal(t, 3, exit.ExitCode())
	<-p.Done()
}

func TestCrashBeforeAKillIsReported(t *testing.T) {
	p, _ := spawn(t, "fail")
	<-p.Done()
	p.Kill()
	require.Error(t, ended(t, p), "it ended by itself, with status 3")
}

func TestWaitObeysItsContext(t *testing.T) {
	p, _ := spawn(t, "count")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, p.Wait(ctx), why)
}

func TestClosedProcessIsGone(t *testing.T) {
	p, lines := spawn(t, "count")
	require.True(t, lines.Scan())
	require.NoError(t, p.Close())
	select {
	case <-p.Done():
	default:
		require.Fail(t, "it still runs")
	}
	require.NoError(t, p.Close(), "again")
}

func TestProgramThatIsNotThere(t *testing.T) {
	_, err := servertest.StartProcess(exec.Command("/no/such/program"))
	require.ErrorContains(t, err, "/no/such/program")
}

func ended(t *testing.T, p *servertest.Process) error {
	t.Helper()
	ctx, cancel := servertest.Bounded(t)
	defer cancel()
	return p.Wait(ctx)
}
