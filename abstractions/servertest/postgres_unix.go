//go:build unix

package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Postgres is a PostgreSQL server for a single test, for operations that would disturb other tests
// on a shared server. Make one with NewPostgres.
type Postgres struct {
	Server
	URL string // of database "postgres", as a superuser
}

// NewPostgres makes a cluster in a temporary folder and starts the newest installed
// server with that cluster. If this process runs as root, the server runs as another
// user, since PostgreSQL refuses root. The server does not sync, so committed data
// survive a crash of its processes, but not of the machine. The test fails if no server
// is installed.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	return startPostgres(t, "initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C")
}

// Standby starts a hot standby of the server. The standby has its own copy of the data and can be promoted.
func (p *Postgres) Standby() *Postgres {
	p.T.Helper()
	return startPostgres(p.T, "pg_basebackup", "--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--dbname="+p.URL)
}

// startPostgres runs maker, a program of PostgreSQL that creates a data folder, and starts a server on that folder.
func startPostgres(t testing.TB, maker string, args ...string) *Postgres {
	t.Helper()
	Require(t, "LEASING_TEST_POSTGRES")
	bin := postgresPrograms(t)
	folder, err := os.MkdirTemp("", "servertest-postgres-") //nolint:usetesting // another user needs access
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(folder)) })
	other := userUnlessRoot(t, "postgres", "nobody")
	if other != nil {
		check(t, os.Chown(folder, int(other.Uid), int(other.Gid)))
	}
	data := filepath.Join(folder, "data")
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), filepath.Join(bin, name), append(args, "-D", data)...) // the process outlives the call
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: other}
		return cmd
	}
	if out, err := program(maker, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", maker, err, out)
	}
	p := &Postgres{Server: Server{T: t, Dir: folder}}
	p.Command = func() (*exec.Cmd, error) {
		return program("postgres", "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "max_connections=400", "-c", "lc_messages=C"), nil
	}
	p.Answers = func(context.Context) error { // pg_ctl also reads line 8
		text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
		if lines := strings.Split(string(text), "\n"); err == nil && (len(lines) < 8 || strings.TrimSpace(lines[7]) != "ready") {
			err = errors.New("it does not take connections yet")
		}
		return err
	}
	t.Cleanup(func() { p.end(); p.Close() })
	check(t, p.Launch(t.Context()))
	p.URL = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.Addr())
	return p
}

// Pause freezes all the server's processes (SIGSTOP), including those of its connections: the connections
// stay open and get no answers. It needs Linux.
func (p *Postgres) Pause() {
	p.T.Helper()
	p.Server.Pause() // from here on the server starts no process
	p.signalOthers(syscall.SIGSTOP)
}

// Resume continues the processes of a paused server (SIGCONT).
func (p *Postgres) Resume() {
	p.T.Helper()
	p.signalOthers(syscall.SIGCONT)
	p.Server.Resume()
}

// signalOthers signals the processes that the server has started. Each has its own process group.
func (p *Postgres) signalOthers(sig syscall.Signal) {
	p.T.Helper()
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID()))
	check(p.T, err)
	for _, text := range strings.Fields(string(list)) {
		pid, err := strconv.Atoi(text)
		check(p.T, err)
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) { // unless it has just ended
			check(p.T, err)
		}
	}
}

// Crash ends all the server's processes at once, without a checkpoint, and starts the server
// again on its port, where it recovers from its log. Crash returns when the server answers.
func (p *Postgres) Crash(ctx context.Context) error {
	p.end()
	return p.LaunchOn(ctx, p.port)
}

// end requests PostgreSQL's immediate shutdown. After a SIGKILL the processes of connections would continue
// for a moment.
func (p *Postgres) end() {
	if p.process != nil {
		_ = syscall.Kill(p.PID(), syscall.SIGQUIT)
		_ = syscall.Kill(p.PID(), syscall.SIGCONT) // if it is paused
		<-p.process.Done()
	}
}

// postgresPrograms returns the folder of the newest server's programs. On Debian it is outside of
// PATH.
func postgresPrograms(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		check(t, err)
		return filepath.Dir(path)
	}
	const places = "/usr/lib/postgresql/*/bin/initdb"
	found, err := filepath.Glob(places)
	check(t, err)
	if len(found) == 0 {
		t.Fatalf("no PostgreSQL server is installed: there is no initdb in PATH, nor %s", places)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

// userUnlessRoot returns the user that runs the server if this process runs as root: the first of
// names that exists. Otherwise it returns nil.
func userUnlessRoot(t testing.TB, names ...string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	var other *user.User
	err := errors.New("nobody else")
	for i := 0; i < len(names) && err != nil; i++ {
		other, err = user.Lookup(names[i])
	}
	check(t, err)
	uid, err := strconv.ParseUint(other.Uid, 10, 32)
	check(t, err)
	gid, err := strconv.ParseUint(other.Gid, 10, 32)
	check(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
