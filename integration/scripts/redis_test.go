package scripts_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serverFile loads the functions of a file in scripts/servers, and runs a line of bash. Its
// apt_install only prints the names of the packages.
func serverFile(t *testing.T, name string, env []string, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `
		set -eu
		. "$root/scripts/lib.sh"
		. "$root/scripts/servers/$1.sh"
		apt_install() { echo "apt_install $*"; [ -z "${APT_FAILS:-}" ]; }
		`+line, "bash", name)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	cmd.Env = append(append(os.Environ(), "root="+root, "REDIS_SERVER="), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return strings.TrimSpace(stdout.String() + stderr.String()), err
}

// programs returns a folder of programs that only print their name and
// arguments.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		text := "#!/bin/sh\necho " + name + " \"$@\" >&2\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	return dir
}

// redisServers is a command that waits for a line of input, with servers that are started only for this command, even if the
// environment names others.
type redisServers struct {
	*exec.Cmd
	in       io.Closer
	hosts    []string
	password string
}

func startRedis(t *testing.T, name, query string) *redisServers {
	t.Helper()
	variable := "LEASING_TEST_" + strings.ToUpper(name)
	// Not t.Context: it ends before the clean-up, and would kill the script.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "../../scripts/with-servers", name, "--",
		"bash", "-c", `printf '%s\n' "$`+variable+`"; read -r || exit 7`)
	cmd.Env = append(os.Environ(), variable+"=", "TMPDIR="+publicDir(t))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	hosts, password := parseRedis(t, strings.TrimSpace(line), query)
	return &redisServers{cmd, in, hosts, password}
}

// publicDir returns a folder that the servers may enter: they run under another
// account when the tests run as root.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "leasing-scripts.") //nolint:usetesting // other accounts can't enter t.TempDir
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// converse sends one line per command to a server and reads one line of reply for each.
func converse(t *testing.T, addr string, commands ...string) []string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 20*time.Second)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	in := bufio.NewReader(conn)
	var replies []string
	for _, command := range commands {
		_, err := fmt.Fprintf(conn, "%s\r\n", command)
		require.NoError(t, err)
		reply, err := in.ReadString('\n')
		require.NoError(t, err)
		replies = append(replies, strings.TrimSpace(reply))
	}
	return replies
}

// isDown reports whether no process listens on addr.
func isDown(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		conn.Close()
	}
	return err != nil
}

// parseRedis splits the URL of one or more servers into hosts and password.
func parseRedis(t *testing.T, raw, query string) (hosts []string, password string) {
	t.Helper()
	parts := regexp.MustCompile(`^redis://:([0-9a-f]{32})@([0-9.:,]+)/0(?:\?(.*))?$`).FindStringSubmatch(raw)
	require.NotNil(t, parts, raw)
	require.Equal(t, query, parts[3])
	return strings.Split(parts[2], ","), parts[1]
}

// Each of the servers requires the password, and no server or file is left at the end.
func TestRedisAndRedlockServers(t *testing.T) {
	for name, c := range map[string]struct {
		query   string
		servers int
	}{
		"redis":   {"", 1},
		"redlock": {"mode=redlock", 3},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := startRedis(t, name, c.query)
			require.Len(t, cmd.hosts, c.servers)
			for i, host := range cmd.hosts {
				require.Equal(t, []string{"-NOAUTH Authentication required.", "+OK", "+OK", ":1"},
					converse(t, host, "PING", "AUTH "+cmd.password, fmt.Sprintf("SET server%d here", i), "DBSIZE"))
			}
			require.NoError(t, cmd.in.Close())
			require.Error(t, cmd.Wait())
			require.Equal(t, 7, cmd.ProcessState.ExitCode())
			for _, host := range cmd.hosts {
				require.True(t, isDown(host), host)
			}
			left, err := os.ReadDir(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR="))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// If the script is killed, the kernel stops the script's servers.
func TestRedisServersDieWithTheScript(t *testing.T) {
	cmd := startRedis(t, "redis", "")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return isDown(cmd.hosts[0]) }, 30*time.Second, 10*time.Millisecond)
}

// Two runs at the same time have separate servers.
func TestRedisServersShareNoPort(t *testing.T) {
	one, two := startRedis(t, "redis", ""), startRedis(t, "redis", "")
	require.NotEqual(t, one.hosts, two.hosts)
	require.NotEqual(t, one.password, two.password)
}

// Debian's package includes a service, which must not start with the machine.
func TestRedisInstallLeavesTheServiceOff(t *testing.T) {
	path := "PATH=" + programs(t, "update-rc.d") + ":" + os.Getenv("PATH")
	for _, name := range []string{"redis", "redlock"} {
		out, err := serverFile(t, name, []string{path}, name+"_install")
		require.NoError(t, err)
		require.Equal(t, "apt_install redis-server\nupdate-rc.d redis-server disable", out)
	}
	out, err := serverFile(t, "redis", []string{path, "APT_FAILS=yes"}, "redis_install")
	require.Error(t, err)
	require.Equal(t, "apt_install redis-server", out)
}

// If the program that a user names does not exist, no other program is installed.
func TestRedisProgramOfTheUsersOwn(t *testing.T) {
	dir := programs(t, "my-redis")
	mine := filepath.Join(dir, "my-redis")
	out, err := serverFile(t, "redis", []string{"REDIS_SERVER=" + mine}, "redis_bin")
	require.NoError(t, err)
	require.Equal(t, mine, out)

	none := "REDIS_SERVER=" + filepath.Join(dir, "none")
	_, err = serverFile(t, "redis", []string{none}, "redis_bin")
	require.Error(t, err)
	out, err = serverFile(t, "redis", []string{none}, "redis_install")
	require.Error(t, err)
	require.Contains(t, out, "REDIS_SERVER names no program: "+filepath.Join(dir, "none"))
	require.NotContains(t, out, "apt_install")
}

// A server that ends at once is an error, and the command does not run.
func TestRedisThatDoesNotStart(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "../../scripts/with-servers", "redis", "--", "echo", "not reached")
	broken := filepath.Join(programs(t, "broken"), "broken")
	require.NoError(t, os.Chmod(filepath.Dir(broken), 0o755))
	cmd.Env = append(os.Environ(), "LEASING_TEST_REDIS=", "REDIS_SERVER="+broken, "TMPDIR="+publicDir(t))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "redis did not start")
	require.NotContains(t, string(out), "not reached")
}

// If the variable names the user's own server, that server is used. The tests that kill servers still need the program, as
// redis_example says.
func TestRedisVariableThatIsSetIsLeftAlone(t *testing.T) {
	for _, name := range []string{"redis", "redlock"} {
		variable := "LEASING_TEST_" + strings.ToUpper(name)
		cmd := exec.CommandContext(t.Context(), "../../scripts/with-servers", name, "--", "printenv", variable)
		cmd.Env = append(os.Environ(), variable+"=redis://mine", "REDIS_SERVER=/none")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "redis://mine\n", string(out))
	}
	out, err := serverFile(t, "redis", nil, `echo "$redis_example"`)
	require.NoError(t, err)
	require.Contains(t, out, "need the program redis-server")
}
