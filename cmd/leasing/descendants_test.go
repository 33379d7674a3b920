//go:build linux

package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/descendants"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// wrappers start a job $J in ways that take it out of the command's process group, or away from its
// parent. All end by themselves after a while.
var wrappers = map[string]string{
	"timeout":             `exec timeout 1h $J`,
	"timeout in timeout":  `exec timeout 1h timeout 1h $J`,
	"setsid":              `exec setsid $J`,
	"setsid that forks":   `setsid -f $J; sleep 40`,
	"job control":         `exec bash -c 'set -m; $J & wait'`,
	"nohup":               `nohup $J >&2 & sleep 40`,
	"double fork":         `(setsid $J & ) ; sleep 40`,
	"a terminal's script": `exec script -qec "$J" /dev/null >&2`,
	"a daemon":            `exec perl -e 'use POSIX; fork and sleep 40; setsid; fork and exit; chdir "/"; exec split / /, $ENV{J}'`,
	"a chain of forks": `perl -e 'use POSIX; open my $f, ">>", (split / /, $ENV{J})[2]; while (time < $^T + 40) { fork and _exit(0); setsid;
		syswrite $f, "$ENV{LEASING_TOKEN} $$ 1 $ENV{LEASING_TEST_RUN}\n" }' & sleep 40`,
	"a storm of forks": `export LEASING_TEST_LEAF=1; exec timeout 1h bash -c 'for i in $(seq 10); do setsid $J & sleep 0.1; done; wait'`,
}

// failures interrupt a run whose command is one of the wrappers. If code is 0, the job ends on TERM, and the
// exit code is the wrapper's.
var failures = map[string]struct {
	do   func(p *testEnv, r *process)
	code int
}{
	"leasing is stopped":  {stopBetweenWrites, exit.Lost},
	"leasing is killed":   {func(_ *testEnv, r *process) { r.signal(unix.SIGKILL) }, -1},
	"the lease is broken": {func(p *testEnv, _ *process) { p.breakLease() }, exit.Lost},
	"the guard is killed": {func(_ *testEnv, r *process) { require.NoError(r.t, unix.Kill(r.guard(), unix.SIGKILL)) }, 128 + 9},
	"the guard is stopped, and the lease broken": {func(p *testEnv, r *process) {
		require.NoError(r.t, unix.Kill(r.guard(), unix.SIGSTOP))
		p.breakLease()
	}, exit.Lost},
	"leasing gets TERM": {func(_ *testEnv, r *process) { r.signal(unix.SIGTERM) }, 0},
}

// stopBetweenWrites stops leasing while leasing does not hold the database's lock: a process that is stopped
// during a write keeps the lock until it continues.
func stopBetweenWrites(p *testEnv, r *process) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(p.folder, "leasing", "leases.db")+"?_pragma=busy_timeout(100)")
	require.NoError(r.t, err)
	defer db.Close()
	for {
		r.signal(unix.SIGSTOP)
		eventually(r.t, r.isStopped, "leasing is stopped")
		if _, err := db.Exec("BEGIN IMMEDIATE; ROLLBACK"); err == nil {
			return
		}
		r.signal(unix.SIGCONT)
	}
}

// isStopped reports whether all threads of the process have stopped. A thread may run for a moment after the signal, and take
// the lock.
func (r *process) isStopped() bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", r.Process.Pid))
	require.NoError(r.t, err)
	return len(files) > 0 && !slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && !strings.Contains(string(text), "\nState:\tT")
	})
}

func (p *testEnv) breakLease() {
	code, _, problems := p.run("break", "--yes", "name")
	require.Zero(p.t, code, problems)
}

// guard returns the process ID of leasing's only child.
func (r *process) guard() int {
	r.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.Process.Pid))
	require.NoError(r.t, err)
	text := ""
	for _, file := range files {
		children, _ := os.ReadFile(file)
		text += string(children)
	}
	return atoi(r.t, strings.TrimSpace(text))
}

// A process that leaves the command's group, or whose parent ends, still dies with the command.
func TestTrap_T136_ACommandThatLeavesItsGroupDiesBeforeTheNextHolder_sqlite(t *testing.T) {
	servertest.Thorough(t)
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	for wrapper, script := range wrappers {
		for failure, m := range failures {
			if testing.Short() && failure != "leasing is stopped" {
				continue
			}
			t.Run(wrapper+", "+failure, func(t *testing.T) {
				t.Parallel()
				for _, program := range []string{"timeout", "setsid", "bash", "script", "perl"} {
					if _, err := exec.LookPath(program); err != nil && strings.Contains(script, program) {
						t.Skip("this machine has no " + program)
					}
				}
				p := newTestEnv(t)
				journal := filepath.Join(p.folder, "journal")
				job := exe + " " + journalName + " " + journal + " 40s"
				if m.code != 0 {
					job += " stubborn"
				}
				r := p.start("run", "--ttl", "2s", "--grace", "200ms", "name", "--", "env", "LEASING_TEST_RUN=first", "J="+job, "sh", "-c", script)
				eventually(t, func() bool { return journaled(journal) > 20 }, "the job works")
				m.do(p, r)
				next := p.start("run", "--wait", "forever", "name", "--", "env", "LEASING_TEST_RUN=next", "LEASING_TEST_LEAF=1", exe, journalName, journal, "300ms")
				require.Equal(t, journalCode, next.code(), next.text(next.err))
				lines := readJournal(t, journal)
				first := slices.IndexFunc(lines, func(w journalLine) bool { return w.run == "next" })
				require.Positive(t, first)
				for _, w := range lines[first:] {
					require.Equal(t, "next", w.run, "the old holder works beside the next one")
				}
				if failure == "leasing is stopped" {
					r.signal(unix.SIGCONT)
				}
				code := r.code()
				if m.code != 0 { // otherwise the code is the wrapper's
					require.Equal(t, m.code, code, r.text(r.err))
				}
				require.NotContains(t, r.text(r.err), "do not end")
				for _, w := range lines[:first] {
					eventually(t, func() bool { return unix.Kill(w.pid, 0) == unix.ESRCH }, fmt.Sprintf("the end of %d", w.pid))
				}
			})
		}
	}
}

func journaled(path string) int {
	text, _ := os.ReadFile(path)
	return strings.Count(string(text), "\n")
}

// A command's zombies do not keep the lease, even if the process that inherits orphans reaps no child.
func TestTrap_T140_ZombiesKeepNoLease_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for _, command := range []string{"sleep 40 & exit 0", "setsid sleep 40 & exit 0", "(sleep 40 &); exit 0"} {
		init := asCommand(t.Context(), p.env(), idleName, "run", "name", "--", "sh", "-c", command)
		out, err := init.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
		code, _, problems := p.run("run", "name", "--", "true")
		require.Zero(t, code, problems)
	}
}

// idleName is the first argument that makes the test binary a subreaper: it becomes the parent of all orphans, and
// reaps no child.
const idleName = "idle"

func idleMain(args []string) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run()
	os.Exit(cmd.ProcessState.ExitCode())
}

// A command that has left its group is sent TERM once, not twice.
func TestRunOnSQLiteSignalsEachDescendantOnce(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "name", "--", "setsid", "sh", "-c", `trap 'echo USR1' USR1; trap 'echo TERM; exit 3' TERM; echo ready; while true; do sleep 0.02; done`)
	r.awaitOutput("ready")
	r.signal(unix.SIGUSR1)
	r.awaitOutput("USR1")
	r.signal(unix.SIGTERM)
	require.Equal(t, 3, r.code(), r.text(r.err))
	require.Equal(t, "ready\nUSR1\nTERM\n", r.text(r.out))
}

// childrenByTask returns the children of a process.
func childrenByTask(pid int) (all []int) {
	descendants.Visit(pid, 0, func(child int) bool {
		all = append(all, child)
		return false
	})
	return all
}
