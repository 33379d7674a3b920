//go:build unix

package servertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// NewMariaDB makes a MariaDB in a temporary folder and starts it, as user mysql if this process runs as root. The server keeps all
// committed data when its process is killed. Its user root has no password. flags are added to the command line. The test fails if the
// server is not installed.
func NewMariaDB(t testing.TB, flags ...string) *Server {
	t.Helper()
	Require(t, "LEASING_TEST_MARIADB")
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		program = "/usr/sbin/mariadbd" // on Debian it is outside of some PATHs
	}
	folder, err := os.MkdirTemp("", "servertest-mariadb-") //nolint:usetesting // another user needs access
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(folder)) })
	other := userUnlessRoot(t, "mysql")
	if other != nil {
		check(t, os.Chown(folder, int(other.Uid), int(other.Gid)))
	}
	command := func(program string, args ...string) *exec.Cmd {
		args = append([]string{"--no-defaults", "--datadir=" + filepath.Join(folder, "data"), "--tmpdir=" + folder}, args...)
		cmd := exec.CommandContext(context.Background(), program, args...) // the process outlives the call
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: other}
		return cmd
	}
	if out, err := command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve").CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v: %s", err, out)
	}
	s := &Server{T: t, Dir: folder}
	s.Command = func() (*exec.Cmd, error) {
		return command(program, append([]string{
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--socket=" + filepath.Join(folder, "socket"),
			"--pid-file=" + filepath.Join(folder, "pid"), "--skip-log-bin", "--skip-name-resolve", "--max-connections=400",
		}, flags...)...), nil
	}
	s.Answers = func(context.Context) error {
		if !strings.Contains(s.Printed(), "ready for connections") {
			return errors.New("it does not take connections yet")
		}
		return nil
	}
	t.Cleanup(s.Close)
	check(t, s.Launch(t.Context()))
	return s
}
