//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// journalName, as the first argument, makes the test binary the command of a run. The command
// and a child of its own each write a line to a file every millisecond, and the command exits
// with journalCode.
const (
	journalName = "journal"
	journalCode = 7
)

// journalMain runs "journal FILE LASTS [stubborn]", which writes lines to FILE. A line has the token, the
// process, its group, and the run. All processes append to one file, so the order of the lines is that of the
// writes.
func journalMain(args []string) {
	duration, err := time.ParseDuration(args[1])
	if err != nil {
		panic(err)
	}
	stubborn := len(args) > 2
	if stubborn {
		signal.Ignore(unix.SIGTERM)
	}
	file, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	if os.Getenv("LEASING_TEST_LEAF") == "" {
		child := exec.Command("/proc/self/exe", append([]string{journalName, args[0], "1h"}, args[2:]...)...)
		child.Env, child.Stderr = append(os.Environ(), "LEASING_TEST_LEAF=1"), os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	line := fmt.Appendf(nil, "%s %d %d %s\n", os.Getenv("LEASING_TOKEN"), os.Getpid(), unix.Getpgrp(), os.Getenv("LEASING_TEST_RUN"))
	end := time.After(duration)
	for {
		if _, err := file.Write(line); err != nil {
			panic(err)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			os.Exit(journalCode)
		}
	}
}

// journalLine is a line of the journal.
type journalLine struct {
	token      int64
	pid, group int
	run        string
}

func readJournal(t *testing.T, path string) (lines []journalLine) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var w journalLine
		_, err := fmt.Sscanf(line, "%d %d %d %s", &w.token, &w.pid, &w.group, &w.run)
		require.NoError(t, err, line)
		lines = append(lines, w)
	}
	return lines
}

// asCommand returns a command that runs the test binary as leasing, with arguments.
func asCommand(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "leasing"
	cmd.Env = append(append(os.Environ(), "LEASING_TEST_AS_COMMAND=1"), env...)
	return cmd
}

// attack is an attack on one run.
type attack struct {
	name string
	// do receives the processes of the run, and returns at the end of the attack.
	do func(a *contest, p processes)
	// codes are the exit codes that may follow, in addition to the codes of a run that ended
	// before the attack or lost its lease through a server's fault.
	codes []int
}

// processes has the process IDs of a run; 0 for a process that was not found.
type processes struct{ leasing, outer, inner, command int }

var attacks = []attack{
	{"nothing", func(*contest, processes) {}, nil},
	{"leasing is killed", func(_ *contest, p processes) { kill(p.leasing, unix.SIGKILL) }, []int{-1}},
	{"leasing is stopped", func(a *contest, p processes) { a.stop(p.leasing, between(500, 3000)) }, nil},
	{"leasing is stopped and killed", func(a *contest, p processes) {
		kill(p.leasing, unix.SIGSTOP)
		a.sleep(between(0, 1500))
		kill(p.leasing, unix.SIGKILL)
	}, []int{-1}},
	{"leasing gets TERM", func(_ *contest, p processes) { kill(p.leasing, unix.SIGTERM) }, []int{128 + 15}},
	{"leasing gets TSTP", func(a *contest, p processes) {
		kill(p.leasing, unix.SIGTSTP)
		a.sleep(between(0, 2500))
		kill(p.leasing, unix.SIGCONT)
	}, nil},
	{"the command is killed", func(_ *contest, p processes) { kill(p.command, unix.SIGKILL) }, []int{128 + 9}},
	{"the command is stopped", func(a *contest, p processes) { a.stop(p.command, between(500, 3000)) }, nil},
	{"the inner guard is killed", func(_ *contest, p processes) { kill(p.inner, unix.SIGKILL) }, []int{128 + 9}},
	{"the outer guard is killed", func(_ *contest, p processes) { kill(p.outer, unix.SIGKILL) }, []int{128 + 9}},
	{"the inner guard is stopped", func(a *contest, p processes) { a.stop(p.inner, between(500, 3000)) }, nil},
	{"the outer guard is stopped", func(a *contest, p processes) { a.stop(p.outer, between(500, 3000)) }, nil},
	{"the group is stopped", func(a *contest, p processes) {
		if p.inner > 0 {
			a.stop(-p.inner, between(500, 3000))
		}
	}, nil},
	{"leasing is stopped, and the inner guard killed", func(a *contest, p processes) {
		kill(p.leasing, unix.SIGSTOP)
		kill(p.inner, unix.SIGKILL)
		a.sleep(between(500, 3000))
		kill(p.leasing, unix.SIGCONT)
	}, []int{128 + 9}},
	{"leasing is stopped, and the outer guard killed", func(a *contest, p processes) {
		kill(p.leasing, unix.SIGSTOP)
		kill(p.outer, unix.SIGKILL)
		a.sleep(between(500, 3000))
		kill(p.leasing, unix.SIGCONT)
	}, []int{128 + 9}},
}

// between returns a random duration, in whole milliseconds.
func between(lower, upper int) time.Duration {
	return time.Duration(lower+rand.IntN(upper-lower)) * time.Millisecond
}

// escapes start the job $J in ways that take it out of the command's group or away from its parent, and end with
// the job's exit code.
var escapes = []string{
	`timeout 1h $J`,
	`setsid --wait $J`,
	`setsid -f sh -c "$J; echo \$? > $CODE"; await`,
	`set -m; $J & wait $!`,
	`( (setsid $J; echo $? > $CODE) & ); await`,
	`nohup timeout 1h $J 2>&2`,
	`(exec setsid --wait timeout 1h $J)`,
}

// escapeScript is the script around one of the escapes. It prints a last line, by which contest.run knows that
// all output has arrived.
const escapeScript = `await() { while [ ! -s $CODE ]; do sleep 0.02; done; return $(cat $CODE); }
exec 2>/dev/null > >(sleep 0.05; cat >> $OUT)
%s
code=$?
echo "last $LEASING_TEST_RUN"
exit $code`

func kill(pid int, sig unix.Signal) {
	if pid > 0 {
		_ = unix.Kill(pid, sig)
	}
}

// firstChild returns a child of a process, or 0. Any thread of that process may have started the child.
func firstChild(pid int) int {
	if all := childrenByTask(pid); pid > 0 && len(all) > 0 {
		return all[0]
	}
	return 0
}

// contest is a backend, one name, and the journal of all holders of the name.
type contest struct {
	t       *testing.T
	url     string
	journal string
	faults  []fault // injected into the server, one after another
	// escaping says that the jobs leave the command's group, and that every other run is below a subreaper that
	// reaps no orphans.
	escaping bool
}

// fault is something that goes wrong with a server for a while.
type fault struct {
	name string
	do   func(during time.Duration)
}

func (a *contest) sleep(d time.Duration) { <-time.After(d) }

func (a *contest) stop(pid int, during time.Duration) {
	if pid == 0 {
		return
	}
	_ = unix.Kill(pid, unix.SIGSTOP)
	a.sleep(during)
	_ = unix.Kill(pid, unix.SIGCONT)
}

// contend distributes the runs over four contenders, and attacks each run once, while the server has faults.
func (a *contest) contend(runs int) {
	t := a.t
	jobs := make(chan int)
	var contenders, chaos sync.WaitGroup
	codes := sync.Map{}
	for range 4 {
		contenders.Go(func() {
			for job := range jobs {
				codes.Store(job, a.run(strconv.Itoa(job), attacks[job%len(attacks)], job))
			}
		})
	}
	done := make(chan struct{})
	faultCounts := map[string]int{}
	chaos.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(2000+rand.IntN(3000)) * time.Millisecond):
				f := a.faults[i%len(a.faults)]
				f.do(time.Duration(500+rand.IntN(1500)) * time.Millisecond)
				faultCounts[f.name]++
			}
		}
	})
	for job := range runs {
		jobs <- job
	}
	close(jobs)
	contenders.Wait()
	close(done)
	chaos.Wait()

	lines := readJournal(t, a.journal)
	var latest journalLine
	pids, tokens, started := map[int]bool{}, map[int64]string{}, map[string]bool{}
	for i, w := range lines {
		if w.token < latest.token {
			t.Fatalf("line %d of %d: run %s works under token %d, after run %s under token %d", i, len(lines), w.run, w.token, latest.run, latest.token)
		}
		if run, seen := tokens[w.token]; seen && run != w.run {
			t.Fatalf("line %d: runs %s and %s have one token", i, w.run, run)
		}
		latest, pids[w.pid], tokens[w.token], started[w.run] = w, true, w.run, true
	}
	for pid := range pids {
		eventually(t, func() bool {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // a zombie's command line is empty, and another process may have the ID
			return !strings.Contains(string(name), a.journal)
		}, fmt.Sprintf("the end of %d", pid))
	}
	counts := map[int]int{}
	codes.Range(func(_, code any) bool { counts[code.(int)]++; return true })
	t.Logf("%d runs, %d of them had the lease, %d lines; exit codes: %v; faults: %v", runs, len(started), len(lines), counts, faultCounts)
	require.GreaterOrEqual(t, len(started), runs/3, "on a very slow machine, too")
	require.Len(t, faultCounts, len(a.faults))
}

// run makes one run, attacks it some time after it has begun to work, and returns its exit code: -1 if it was
// killed.
func (a *contest) run(id string, at attack, job int) int {
	duration := between(300, 2300)
	work := []string{"/proc/self/exe", journalName, a.journal, duration.String()}
	if job%3 == 0 {
		work = append(work, "stubborn")
	}
	env, out := []string{"LEASING_TEST_RUN=" + id}, filepath.Join(filepath.Dir(a.journal), "out"+id)
	if a.escaping {
		work[0] = exe(a.t)
		env = append(env, "J="+strings.Join(work, " "), "OUT="+out, "CODE="+out+".code")
		work = []string{"bash", "-c", fmt.Sprintf(escapeScript, escapes[job%len(escapes)])}
	}
	args := append([]string{"run", "--url", a.url, "--timeout", "2s", "--ttl", "1s", "--grace", "100ms", "--wait", "10m", "fight", "--"}, work...)
	underSubreaper := a.escaping && job%2 == 0
	if underSubreaper {
		args = append([]string{idleName}, args...)
	}
	cmd := asCommand(context.Background(), env, args...)
	// The command of leasing, and the command's child, inherit standard error, and must not outlive leasing.
	printed, writeEnd, err := os.Pipe()
	require.NoError(a.t, err)
	cmd.Stderr = writeEnd
	require.NoError(a.t, cmd.Start())
	require.NoError(a.t, writeEnd.Close())
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(printed)
		_ = printed.Close()
		text <- string(all)
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	allowed := []int{journalCode, exit.Lost}
	leasing := func() int { return cmd.Process.Pid }
	if underSubreaper {
		leasing = func() int { return firstChild(cmd.Process.Pid) }
	}
	if a.attack(id, at, leasing, duration, ended) {
		allowed = append(allowed, at.codes...)
	}
	code := cmd.ProcessState.ExitCode() // -1 if it was killed
	if underSubreaper && code == 255 {
		code = -1
	}
	if a.escaping && code == journalCode {
		text, _ := os.ReadFile(out)
		if string(text) != "last "+id+"\n" {
			a.t.Errorf("run %s, %s, %s: its last line is lost: %q", id, at.name, escapes[job%len(escapes)], text)
		}
	}
	select {
	case out := <-text:
		if !slices.Contains(allowed, code) || code == exit.Lost && !strings.Contains(out, "lease lost") {
			a.t.Errorf("run %s, %s: exit code %d: %s", id, at.name, code, out)
		}
	case <-time.After(maxWait):
		a.t.Errorf("run %s, %s: its command lives on", id, at.name)
	}
	return code
}

// attack attacks a run some time after its command has begun to work, and waits for the end of the run. It returns
// false if the run ends before the attack.
func (a *contest) attack(id string, at attack, leasing func() int, duration time.Duration, ended <-chan struct{}) bool {
	for !a.hasWritten(id) {
		select {
		case <-ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	p := processes{leasing: leasing()}
	p.outer = firstChild(p.leasing)
	p.inner = firstChild(p.outer)
	p.command = firstChild(p.inner)
	a.sleep(time.Duration(rand.IntN(int(duration))))
	at.do(a, p)
	<-ended
	return true
}

// hasWritten reports whether the end of the journal has a line of a run.
func (a *contest) hasWritten(id string) bool {
	file, err := os.Open(a.journal)
	if err != nil {
		return false
	}
	defer file.Close()
	var end [4096]byte
	info, err := file.Stat()
	if err != nil {
		return false
	}
	n, _ := file.ReadAt(end[:], max(0, info.Size()-int64(len(end))))
	return strings.Contains(string(end[:n]), " "+id+"\n")
}

// childrenOf returns the process IDs of a process's children. The command is a child of the guard.
func childrenOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return string(text)
}

// attackedRuns returns the number of runs for each backend.
func attackedRuns() int {
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		return 77
	}
	return len(attacks)
}

// escapingRuns returns the number of escaping runs for each backend.
func escapingRuns() int {
	switch {
	case os.Getenv("LEASING_TEST_SLOW") != "":
		return 70
	case testing.Short():
		return len(escapes)
	}
	return len(attacks)
}

// contendBoth makes plain runs, and then runs whose jobs leave the command's group.
func (a *contest) contendBoth() {
	a.contend(attackedRuns())
	escaping := *a
	escaping.escaping, escaping.journal = true, filepath.Join(a.t.TempDir(), "journal")
	escaping.contend(escapingRuns())
}

func TestRunUnderAttack_sqlite(t *testing.T) {
	servertest.Thorough(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases.db")
	db, err := sql.Open("sqlite3", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	a := &contest{t: t, url: "sqlite://" + path + "?create=true", journal: filepath.Join(t.TempDir(), "journal")}
	a.faults = []fault{{"locked", func(during time.Duration) { // by another process
		conn, err := db.Conn(t.Context())
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "PRAGMA busy_timeout=5000; BEGIN IMMEDIATE"); err == nil {
			a.sleep(during)
			_, _ = conn.ExecContext(t.Context(), "ROLLBACK")
		}
	}}}
	a.contendBoth()
}

func TestRunUnderAttack_redis(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := newRedis(t)
	a := &contest{t: t, url: "redis://" + server.Addr() + "/0", journal: filepath.Join(t.TempDir(), "journal")}
	a.faults = []fault{
		{"stopped", func(during time.Duration) {
			server.Pause()
			a.sleep(during)
			server.Resume()
		}},
		{"killed", func(during time.Duration) {
			server.Kill()
			a.sleep(during)
			server.Restart()
		}},
	}
	a.contendBoth()
}

// newRedis starts a server of the test's own, which loses nothing when it is killed.
func newRedis(t *testing.T, options ...string) *servertest.Server {
	servertest.Require(t, "LEASING_TEST_REDIS")
	dir := t.TempDir()
	server := &servertest.Server{T: t, Dir: dir}
	server.Command = func() (*exec.Cmd, error) {
		return exec.Command("redis-server", append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(server.Port()), "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		}, options...)...), nil
	}
	server.Answers = func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server.Addr())
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("PING\r\n"))
		var answer [5]byte
		if _, err := conn.Read(answer[:]); err != nil || string(answer[:]) != "+PONG" {
			return fmt.Errorf("%q %w", answer, err)
		}
		return nil
	}
	require.NoError(t, server.Launch(t.Context()))
	t.Cleanup(server.Close)
	return server
}

func openPostgres(t *testing.T, url string) *sql.DB {
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestRunUnderAttack_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := servertest.NewPostgres(t)
	db := openPostgres(t, server.URL)
	a := &contest{t: t, url: server.URL + "&create=true", journal: filepath.Join(t.TempDir(), "journal")}
	a.faults = []fault{
		{"stopped", func(during time.Duration) {
			eventually(t, func() bool { return db.PingContext(t.Context()) == nil }, "a connection")
			server.Pause()
			ctx, cancel := context.WithTimeout(t.Context(), during)
			defer cancel()
			require.Error(t, db.PingContext(ctx), "its process stands still, too")
			<-ctx.Done()
			server.Resume()
		}},
		{"crashed", func(time.Duration) { require.NoError(t, server.Crash(t.Context())) }},
		{"locked", func(during time.Duration) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(t.Context(), "LOCK TABLE leasing.lease IN ACCESS EXCLUSIVE MODE"); err == nil {
				a.sleep(during)
			}
		}},
	}
	a.contendBoth()
}
