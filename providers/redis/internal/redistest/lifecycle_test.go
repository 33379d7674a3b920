//go:build linux

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// childVariable is an environment variable that makes this program start a server and wait to be killed.
const childVariable = "REDISTEST_CHILD"

// alive reports whether a process runs. A process that has ended may remain as a zombie until
// process 1 notices.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z")
}

func TestPausedServerIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	client := s.Client(t)
	set(t, client, "key", "value")
	s.Pause()
	timedOut(t, client.Get(briefly(t), "key").Err())
	s.Pause() // a second time
	s.Resume()
	require.Equal(t, "value", get(t, client, "key"))
}

func TestKilledServerIsGoneUntilRestarted(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	client := s.Client(t)
	set(t, client, "key", "value")
	addr, pid := s.Addr(), s.PID()
	s.Kill()
	s.Kill() // a second time
	require.False(t, alive(pid))
	require.Error(t, client.Ping(t.Context()).Err())
	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())
	absent(t, client, "key")
}

func TestPersistentServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Persist: true, Password: "secret"})
	client := s.Client(t)
	for name, again := range map[string]func(){
		"killed":   func() { s.Kill(); s.Restart() },
		"running":  s.Restart,
		"is still": func() { s.Pause(); s.Restart() },
	} {
		set(t, client, name, name)
		again()
		require.Equal(t, name, get(t, client, name))
	}
	s.RestartEmpty()
	absent(t, client, "killed")
}

func TestRestartWaitsForThePort(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	client := s.Client(t)
	s.Kill()
	squatter, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		s.Restart()
	}()
	secondTry := filepath.Join(s.Dir, "log-3") // the first try after the first start is log-2
	require.Eventually(t, func() bool { return exists(secondTry) }, servertest.Timeout, 10*time.Millisecond)
	require.NoError(t, squatter.Close())
	<-restarted
	require.NoError(t, client.Ping(t.Context()).Err())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestClientIsClosedWithItsTest(t *testing.T) {
	s := Start(t, Options{})
	var client *redis.Client
	t.Run("client", func(t *testing.T) { client = s.Client(t) })
	require.ErrorIs(t, client.Ping(t.Context()).Err(), redis.ErrClosed)
}

// If another process takes the chosen port before the server binds it, the server reports
// ErrPortTaken, so no client talks to the wrong server.
func TestPortOfSomebodyElseIsNotTaken(t *testing.T) {
	other := Start(t, Options{})
	late := newServer(t, Options{})
	require.ErrorIs(t, late.LaunchOn(t.Context(), other.Port()), servertest.ErrPortTaken)
	require.False(t, alive(late.PID()))

	require.NoError(t, late.Launch(t.Context()), "on another port")
	require.NotEqual(t, other.Addr(), late.Addr())
	require.NoError(t, late.Client(t).Ping(t.Context()).Err())
}

func TestFailedStartShowsWhatTheServerSaid(t *testing.T) {
	s := newServer(t, Options{Args: []string{"--no-such-option", "1"}})
	require.ErrorContains(t, s.Launch(t.Context()), "no-such-option")
	require.False(t, alive(s.PID()))
}

// Whatever state a server is in, nothing of it is left when its test ends.
func TestNothingOutlivesItsTest(t *testing.T) {
	var pids []int
	var dir string
	t.Run("servers", func(t *testing.T) {
		servers := StartMany(t, 4, Options{Persist: true})
		servers[0].Pause()
		servers[1].Kill()
		servers[2].Restart()
		for _, s := range servers {
			pids = append(pids, s.PID())
		}
		dir = servers[0].Dir
		require.True(t, alive(pids[0]))
		require.False(t, alive(pids[1]))
	})
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
	require.NoDirExists(t, dir)
}

// No server is left even if the process of the tests is killed.
func TestNothingOutlivesTheTestsProcess(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		s := Start(t, Options{})
		fmt.Println("\nserver", s.PID())
		select {} // until killed
	}
	servertest.Require(t, "LEASING_TEST_REDIS")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), childVariable+"=yes", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()

	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		fmt.Sscanf(lines.Text(), "server %d", &pid)
	}
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return !alive(pid) }, servertest.Timeout, 10*time.Millisecond)
}
