//go:build unix

package sqlsequence

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// options are those of a short run, or of one of two minutes with LEASING_TEST_SLOW.
func options() sequencetest.TortureOptions {
	o := sequencetest.TortureOptions{For: 8 * time.Second, Writers: 12, Cleaners: 6, Readers: 3, Lease: 300 * time.Millisecond, Seed: uint64(time.Now().UnixNano())}
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		o.For = 2 * time.Minute
	}
	return o
}

func TestTorture_sqlite(t *testing.T) {
	s := newSqlite(t)
	o, killed := options(), 0
	o.Beside = func(ctx context.Context, tell sequencetest.Tell) {
		killed = killWriters(ctx, t, writer{Path: s.path}, tell)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[*sql.Tx](s), o, nil))
	require.Greater(t, killed, 4)
}

func TestTorture_postgres(t *testing.T) {
	p := newPool(t)
	o, killed := options(), 0
	o.Beside = func(ctx context.Context, tell sequencetest.Tell) {
		killed = killWriters(ctx, t, writer{URL: postgresURL(t), Schema: p.schema}, tell)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil))
	require.Greater(t, killed, 4)
}

// The server crashes under everybody, and comes back.
func TestTorture_postgres_restarts(t *testing.T) {
	server := newServer(t)
	t.Setenv("LEASING_TEST_POSTGRES", server.url)
	o := options()
	p := newPool(t)
	o.Beside = func(ctx context.Context, _ sequencetest.Tell) {
		ctx, cancel := context.WithTimeout(ctx, o.For-3*time.Second) // afterwards the last cleaner needs it
		defer cancel()
		for wait(ctx, 500*time.Millisecond+rand.N(time.Second)) {
			server.crash(t)
		}
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil))
	require.Positive(t, server.crashes)
}

func checkTorture(t *testing.T, h *sequencetest.History) {
	t.Helper()
	t.Log(h)
	require.Empty(t, h.Check())
	require.Greater(t, len(h.Entries), 50)
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// writer is what a writer process is told, as JSON in its environment.
type writer struct {
	URL, Schema, Path, Name string
	Lease                   time.Duration
}

const writerVariable = "LEASING_TEST_SEQUENCE_WRITER"

// writerMain is the life of a writer process: it says what it is told, and is killed in the end.
func writerMain(text string) error {
	var w writer
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	ctx, o := context.Background(), sequencetest.TortureOptions{Lease: w.Lease, Seed: uint64(time.Now().UnixNano())}
	tell := func(op string, seq int64) { _, _ = fmt.Println(op, seq) }
	if w.Path != "" {
		s := &sqlite{path: w.Path}
		db, err := s.connect()
		if err != nil {
			return err
		}
		store, err := OpenSQLite(db, Options{Audit: true})
		if err == nil {
			sequencetest.Write(ctx, store, s.Insert, o, w.Name, tell)
		}
		return err
	}
	p := &pool{postgres: &postgres{schema: w.Schema}}
	connections, err := pgxpool.New(ctx, w.URL)
	if err != nil {
		return err
	}
	store, err := OpenPool(connections, Options{Schema: w.Schema, Audit: true})
	if err == nil {
		sequencetest.Write(ctx, store, p.Insert, o, w.Name, tell)
	}
	return err
}

// killWriters runs four writer processes at a time until ctx ends, and kills each after a while. Some were paused before,
// past their leases. It returns how many it has killed.
func killWriters(ctx context.Context, t *testing.T, w writer, tell sequencetest.Tell) (killed int) {
	w.Lease = options().Lease
	var mu sync.Mutex
	var group sync.WaitGroup
	for slot := range 4 {
		group.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				w := w
				w.Name = fmt.Sprintf("p%d.%d", slot, life)
				told := killWriter(ctx, t, w, tell)
				mu.Lock()
				if told > 0 {
					killed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return killed
}

// killWriter is one process. It returns how much it was told.
func killWriter(ctx context.Context, t *testing.T, w writer, tell sequencetest.Tell) (told int) {
	config, err := json.Marshal(w)
	if !assert.NoError(t, err) {
		return 0
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	output, input, err := os.Pipe()
	if !assert.NoError(t, err) {
		return 0
	}
	cmd.Stdout = input
	process, err := servertest.StartProcess(cmd)
	_ = input.Close()
	if !assert.NoError(t, err) {
		return 0
	}
	first := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(output); ; told++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var op string
			var seq int64
			_, err = fmt.Sscan(line, &op, &seq)
			assert.NoError(t, err, line)
			tell(op, seq)
			if told == 0 {
				close(first)
			}
		}
	}()
	select {
	case <-first: // then it is in the midst of its work
	case <-read:
	case <-ctx.Done():
	}
	wait(ctx, rand.N(time.Second))
	if rand.N(2) == 0 && process.Pause() == nil {
		wait(ctx, 2*w.Lease)
		assert.NoError(t, process.Resume())
		wait(ctx, rand.N(w.Lease))
	}
	process.Kill()
	<-read
	_ = output.Close()
	return told
}

// server is a PostgreSQL server of the test's own.
type server struct {
	url     string
	command func(name string, args ...string) *exec.Cmd
	process *servertest.Process
	port    int
	crashes int
}

// newServer makes a cluster and starts it. scripts/with-servers installs the programs.
func newServer(t *testing.T) *server {
	bin := serverPrograms(t)
	folder, err := os.MkdirTemp("", "sequence-postgres-") //nolint:usetesting // another user gets there
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	s := &server{command: func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(bin+"/"+name, append(args, "-D", folder)...)
		cmd.Dir = "/"
		leaveRoot(t, cmd)
		return cmd
	}}
	if user := leaveRoot(t, exec.Command("true")); user != nil {
		require.NoError(t, os.Chown(folder, int(user.Uid), int(user.Gid)))
	}
	out, err := s.command("initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.port, err = servertest.FreePort(t.Context())
	require.NoError(t, err)
	s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	s.start(t)
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts the server, and waits until it answers.
func (s *server) start(t *testing.T) {
	cmd := s.command("postgres", "-p", fmt.Sprint(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	var err error
	s.process, err = servertest.StartProcess(cmd)
	if !assert.NoError(t, err) {
		return
	}
	assert.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.url)
		if err == nil {
			err = conn.Close(ctx)
		}
		return err == nil
	}, time.Minute, 50*time.Millisecond)
}

// crash ends the server at once, and starts it again.
func (s *server) crash(t *testing.T) {
	s.stop()
	s.crashes++
	s.start(t)
}

// serverPrograms is the folder of the newest server's programs.
func serverPrograms(t *testing.T) string {
	out, err := exec.Command("sh", "-c", `for f in "$(command -v initdb)" $(ls -d /usr/lib/postgresql/*/bin/initdb | sort -rV); do [ -x "$f" ] && dirname "$f" && break; done`).Output()
	require.NoError(t, err, "this test starts a PostgreSQL server of its own: install its programs")
	return strings.TrimSpace(string(out))
}

// stop ends the server at once, without a checkpoint: it recovers when it starts again.
func (s *server) stop() {
	_ = syscall.Kill(s.process.PID(), syscall.SIGQUIT)
	<-s.process.Done()
}

// leaveRoot runs a command as another user if this is root, which PostgreSQL refuses, and returns who that is.
func leaveRoot(t *testing.T, cmd *exec.Cmd) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		other, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.ParseUint(other.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(other.Gid, 10, 32)
	require.NoError(t, err)
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return credential
}
