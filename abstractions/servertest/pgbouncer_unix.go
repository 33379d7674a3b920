//go:build unix

package servertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// NewPgBouncer starts PgBouncer in front of a PostgreSQL, in transaction mode, with the given number of connections for
// each database and user. If this process runs as root, PgBouncer runs as another user, since it refuses root. The test
// fails if PgBouncer is not installed.
func NewPgBouncer(t testing.TB, p *Postgres, connections int) *Server {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // on Debian it is outside of some PATHs
	}
	folder, err := os.MkdirTemp("", "servertest-pgbouncer-") //nolint:usetesting // another user needs access
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(folder)) })
	check(t, os.Chmod(folder, 0o755)) //nolint:gosec // the folder holds no secrets
	config := filepath.Join(folder, "pgbouncer.ini")
	s := &Server{T: t, Dir: folder}
	s.Prepare = func() error {
		return os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 1000
`, p.port, s.port, connections), 0o644) //nolint:gosec // another user reads it
	}
	s.Command = func() (*exec.Cmd, error) {
		cmd := exec.CommandContext(context.Background(), program, config) // the process outlives the call
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: userUnlessRoot(t, "postgres", "nobody")}
		return cmd, nil
	}
	s.Answers = func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	t.Cleanup(s.Close)
	check(t, s.Launch(t.Context()))
	return s
}
