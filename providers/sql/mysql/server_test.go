//go:build unix

package mysqllease

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// newServer is a MariaDB of a test's own, for what can't be done to one that others use, too. It keeps what it has committed when its
// process is killed. The URL is that of its user root.
func newServer(t *testing.T) (s *servertest.Server, url func() string) {
	t.Helper()
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		program = "/usr/sbin/mariadbd"
	}
	folder, err := os.MkdirTemp("", "mysqllease-") //nolint:usetesting // another user gets there
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	var other *syscall.Credential
	if os.Getuid() == 0 { // it refuses to run as root
		who, err := user.Lookup("mysql")
		require.NoError(t, err)
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		other = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chown(folder, uid, gid))
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), program, append([]string{"--no-defaults", "--datadir=" + filepath.Join(folder, "data")}, args...)...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: other}
		return cmd
	}
	out, err := command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s = &servertest.Server{T: t, Dir: folder}
	s.Command = func() (*exec.Cmd, error) {
		return command(program, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.Port()), "--socket="+filepath.Join(folder, "socket"),
			"--pid-file="+filepath.Join(folder, "pid"), "--skip-log-bin", "--skip-name-resolve"), nil
	}
	s.Answers = func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	t.Cleanup(s.Close)
	require.NoError(t, s.Launch(t.Context()))
	return s, func() string { return "mysql://root@" + s.Addr() + "/mysql" }
}
