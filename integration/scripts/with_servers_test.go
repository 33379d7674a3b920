// Package scripts_test checks the promises of the repository's shell scripts.
package scripts_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeServer is a file like those in scripts/servers. Its server is a shell that waits.
const fakeServer = `
fake_variable=FAKE_URL
fake_example=fake://127.0.0.1
fake_bin() { [ -n "$FAKE_INSTALLED" ]; }
if [ -n "${FAKE_INSTALL:-}" ]; then
	can_install() { :; }
	fake_install() { "$FAKE_INSTALL"; }
fi
fake_start() {
	start_server "$1/log" TERM bash -c 'echo up; while :; do sleep 0.1; done'
	wait_until 60 "$server_pid" grep -q up "$1/log"
	echo "server $server_pid"
	wait_until 60 "$server_pid" "$FAKE_READY" || return 1
	export FAKE_URL="fake://$server_pid"
}
`

// child is a background process of a command. It prints its PID itself, since until then it is a shell that ignores INT.
const child = `env --default-signal=INT bash -c 'echo "child $$"; exec sleep 300 >/dev/null' &`

// command runs a command under scripts/with-servers, from a copy of the scripts
// whose only server is the fake one, and reads its output.
type command struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer
	temp   string // where the scripts make their folders
}

func start(t *testing.T, env []string, args ...string) *command {
	t.Helper()
	dir, temp := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "scripts", "servers"), 0o755))
	for _, name := range []string{"lib.sh", "with-servers"} {
		text, err := os.ReadFile(filepath.Join(root, "scripts", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "scripts", name), text, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scripts", "servers", "fake.sh"), []byte(fakeServer), 0o644))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	// A test that runs in the background may ignore INT, and its children would inherit that setting.
	cmd := exec.CommandContext(ctx, "env", append([]string{
		"--default-signal=INT", filepath.Join(dir, "scripts", "with-servers"), "fake", "--",
	}, args...)...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+temp, "FAKE_INSTALLED=yes", "FAKE_READY=true"), env...)
	c := &command{t: t, cmd: cmd, stderr: new(bytes.Buffer), temp: temp}
	cmd.Stderr = c.stderr
	var err error
	c.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	require.NoError(t, cmd.Start())
	return c
}

// pid waits for a line that consists of the given word and a PID, and returns the PID.
func (c *command) pid(what string) int {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err, "standard error: %s", c.stderr)
	text, ok := strings.CutPrefix(strings.TrimSpace(line), what+" ")
	require.True(c.t, ok, line)
	pid, err := strconv.Atoi(text)
	require.NoError(c.t, err)
	return pid
}

// end waits until the command has ended, and returns the rest of its output and
// the exit status.
func (c *command) end() (string, int) {
	c.t.Helper()
	rest, err := io.ReadAll(c.out)
	require.NoError(c.t, err)
	err = c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.True(c.t, errors.As(err, &exit), "%v", err)
	}
	return strings.TrimSpace(string(rest)), c.cmd.ProcessState.ExitCode()
}

// requireGone checks that processes have ended and no folder is left.
func (c *command) requireGone(pids ...int) {
	c.t.Helper()
	for _, pid := range pids {
		require.False(c.t, isRunning(pid), "process %d", pid)
	}
	left, err := os.ReadDir(c.temp)
	require.NoError(c.t, err)
	require.Empty(c.t, left)
}

// isRunning reports whether a process runs. A process that has ended may be a zombie until process 1 reaps the zombie.
func isRunning(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(state, "Z")
}

func TestCommandHasTheServerAndItsOwnStatus(t *testing.T) {
	c := start(t, nil, "bash", "-c", `echo "$FAKE_URL"; exit 7`)
	server := c.pid("server")
	out, status := c.end()
	require.Equal(t, "fake://"+strconv.Itoa(server), out)
	require.Equal(t, 7, status)
	c.requireGone(server)
}

func TestSignalEndsCommandThenServer(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
	} {
		t.Run(name, func(t *testing.T) {
			if ossignal.Ignored(signal) {
				t.Skip("a shell can't trap a signal that it was started to ignore, as nohup does") // POSIX, trap
			}
			c := start(t, nil, "bash", "-c", `
				trap 'kill -0 "${FAKE_URL#fake://}" && echo "server was still up"; wait; exit 1' INT
				`+child+` wait`)
			server, child := c.pid("server"), c.pid("child")
			require.NoError(t, c.cmd.Process.Signal(signal))
			out, status := c.end()
			require.Equal(t, "server was still up", out)
			require.Equal(t, 128+int(signal), status)
			c.requireGone(server, child)
		})
	}
}

func TestChildrenOfTheCommandEndWithIt(t *testing.T) {
	c := start(t, nil, "bash", "-c", child+" read -r")
	server, child := c.pid("server"), c.pid("child")
	require.NoError(t, c.in.Close())
	_, status := c.end()
	require.Equal(t, 1, status, "of read")
	c.requireGone(server, child)
}

func TestSignalWhileAServerStarts(t *testing.T) {
	c := start(t, []string{"FAKE_READY=false"}, "echo", "not reached")
	server := c.pid("server")
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	out, status := c.end()
	require.Empty(t, out)
	require.Equal(t, 143, status)
	c.requireGone(server)
}

func TestVariableThatIsSetIsLeftAlone(t *testing.T) {
	c := start(t, []string{"FAKE_URL=fake://mine", "FAKE_INSTALLED="}, "bash", "-c", `echo "$FAKE_URL"`)
	out, status := c.end()
	require.Equal(t, "fake://mine", out)
	require.Zero(t, status)
	c.requireGone()
}

// Without apt-get (here it is not in PATH), a missing server is an error that names the remedy.
func TestMissingServerNamesTheVariable(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"bash", "dirname", "printenv", "id"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	c := start(t, []string{"FAKE_INSTALLED=", "PATH=" + bin}, "bash", "-c", "echo not reached")
	c.requireMissing("fake is not installed, and installing it takes root and apt-get; install it, or")
}

func TestBadInstallNamesTheVariable(t *testing.T) {
	for install, says := range map[string]string{
		"false": "fake could not be installed;",
		"true":  "fake was installed, but its programs were not found;",
	} {
		c := start(t, []string{"FAKE_INSTALLED=", "FAKE_INSTALL=" + install}, "bash", "-c", "echo not reached")
		c.requireMissing(says)
	}
}

// requireMissing checks that the command has ended without a server, with an error that names the remedy.
func (c *command) requireMissing(says string) {
	c.t.Helper()
	out, status := c.end()
	require.Empty(c.t, out)
	require.Equal(c.t, 1, status)
	require.Contains(c.t, c.stderr.String(),
		says+" point FAKE_URL at a running server, for example fake://127.0.0.1")
	c.requireGone()
}

func TestUnknownServerNamesTheKnown(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "../../scripts/with-servers", "nope", "--", "true").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "there is no server named nope; there are: ")
	require.Contains(t, string(out), " redis redlock")
}
