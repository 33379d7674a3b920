//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/descendants"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// otherPrograms maps other programs that run a command to the words that precede that command. env(1) replaces
// itself with the command, so its result is that of the command alone.
var otherPrograms = map[string]string{"env": "env", "flock": "flock lock", "timeout": "timeout 1h", "tini": "tini -s --"}

// Reasons why another program differs from leasing.
const (
	flockCodes   = "flock(1) has codes of its own for a command that can't be run (sysexits.h)"
	flockSignals = "flock(1) does not pass signals on: it ends, and the command goes on"
	tiniCodes    = "tini does not find the command that env(1) finds, or has another code for it"
	timeoutGroup = "timeout(1) acts on a signal only if its command's group does, and adds one to itself"
	timeoutTrap  = "timeout(1) gives its command the default for signals"
	goFiles      = "the Go runtime opens /dev/null where a standard file is closed, so that no other file gets its number"
)

// comparison is a script in which $W stands for the program that runs a command: leasing's exit code and output
// equal those of the other programs, except where differs has a reason.
type comparison struct {
	name    string
	script  string
	signals []unix.Signal // sent to the program in turn, each after the command has printed one more "ready"
	differs map[string]string
}

var comparisons = []comparison{
	{name: "success", script: `exec $W true`},
	{name: "failure", script: `exec $W false`},
	{name: "a code", script: `exec $W sh -c 'exit 42'`},
	{name: "the largest code", script: `exec $W sh -c 'exit 255'`},
	{name: "a code that leasing has, too", script: `exec $W sh -c 'exit 75'`},
	{name: "not found", script: `exec $W no-such-command`, differs: map[string]string{"flock": flockCodes}},
	{name: "not found at a path", script: `exec $W ./no/such`, differs: map[string]string{"flock": flockCodes}},
	{name: "not executable", script: `: > plain; exec $W ./plain`, differs: map[string]string{"flock": flockCodes}},
	{name: "a folder", script: `exec $W /`, differs: map[string]string{"flock": flockCodes}},
	{name: "below a file", script: `: > plain; exec $W ./plain/x`, differs: map[string]string{"flock": flockCodes, "tini": tiniCodes}},
	{name: "an interpreter that is not there", script: `printf '#!/nosuch\n' > s; chmod +x s; exec $W ./s`, differs: map[string]string{"flock": flockCodes}},
	{name: "a script without an interpreter", script: `echo 'echo "$# $1"; exit 9' > s; chmod +x s; exec $W ./s 'a b'`},
	{name: "a relative folder in PATH", script: `mkdir -p d; echo 'echo found' > d/s; chmod +x d/s; PATH=d:$PATH exec $W s`},
	{name: "the name of a command", script: `exec $W bash -c 'echo "$0 $BASH"'`},
	{name: "arguments", script: `exec $W printf '[%s]\n' '' 'a b' -- -x --help "$(printf 'two\nlines')" '*'`},
	{name: "arguments that are no UTF-8", script: `exec $W printf '[%s]' $'\xff\xfe'`},
	{name: "a long argument", script: `exec $W sh -c 'echo ${#1}' x "$(head -c 100000 /dev/zero | tr '\0' x)"`},
	{name: "too many arguments", script: `a=$(head -c 120000 /dev/zero | tr '\0' x); exec $W true $(for i in $(seq 40); do echo $a; done) 2>/dev/null`},
	{name: "the environment", script: `export A='b c' B=; exec $W sh -c 'echo "$A,${B-unset},${C-unset}"'`},
	{name: "the working folder", script: `mkdir -p d; cd d; d=$PWD; exec $W sh -c '[ "$PWD" = "'"$d"'" ] && echo same'`},
	{name: "the umask", script: `umask 027; exec $W sh -c umask`},
	{name: "the limit of files", script: `ulimit -S -n 200; exec $W sh -c 'ulimit -S -n; ulimit -H -n'`},
	{name: "standard input", script: `printf 'one\ntwo\n' | { $W cat; exit; }`},
	{name: "what standard input has left", script: `printf 'one\ntwo\n' | { $W sh -c 'read a; echo "$a"'; cat; }`},
	{name: "no standard input", script: `exec $W sh -c '[ -e /proc/self/fd/0 ] && echo open || echo closed' <&-`,
		differs: map[string]string{"env": goFiles, "timeout": goFiles, "tini": goFiles}},
	{name: "standard error and output", script: `exec $W sh -c 'echo a; echo b >&2; echo c' 2>&1`},
	{name: "files", script: `exec 3>three 7>seven; $W sh -c 'echo x >&3; echo y >&7'; cat three seven`},
	{name: "output without an end of line", script: `exec $W printf x`},
	{name: "a lot of output", script: `$W head -c 3000000 /dev/zero | wc -c`},
	{name: "a reader that goes away", script: `$W yes | head -1; echo "${PIPESTATUS[0]}"`},
	{name: "output of a process substitution", script: `exec $W bash -c 'exec > >(sleep 0.2; cat); echo last; exit 3' | cat`},
	{name: "output from the background", script: `$W sh -c '(sleep 0.3; echo last) & exit 5' | cat; exit "${PIPESTATUS[0]}"`},
	{name: "killed by itself", script: `exec $W sh -c 'kill -KILL $$'`},
	{name: "ended by itself", script: `exec $W sh -c 'kill -TERM $$'`},
	{name: "ended by a signal without a handler", script: `exec $W sh -c 'kill -USR2 $$'`},
	{name: "a fault", script: `ulimit -c 0; exec $W sh -c 'kill -SEGV $$'`},
	{name: "HUP is ignored", script: `trap '' HUP; exec $W sh -c 'kill -HUP $$; echo alive'`, differs: map[string]string{"timeout": timeoutTrap}},
	{name: "TERM and PIPE are ignored", script: `trap '' TERM PIPE; exec $W sh -c 'kill -TERM $$; kill -PIPE $$; echo alive'`, differs: map[string]string{"timeout": timeoutTrap}},
	{name: "TERM", script: `exec $W sh -c 'echo ready; exec sleep 1000'`, signals: []unix.Signal{unix.SIGTERM}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
	{name: "INT", script: `exec $W sh -c 'echo ready; exec sleep 1000'`, signals: []unix.Signal{unix.SIGINT}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
	{name: "ALRM", script: `exec $W sh -c 'echo ready; exec sleep 1000'`, signals: []unix.Signal{unix.SIGALRM}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
	{name: "TERM with a handler", script: `exec $W sh -c 'trap "echo TERM; exit 4" TERM; echo ready; while :; do sleep 0.02; done' 2>/dev/null`,
		signals: []unix.Signal{unix.SIGTERM}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
	{name: "several signals with handlers", script: `exec $W sh -c 'for s in HUP USR1 USR2 QUIT; do trap "echo ready $s" $s; done; trap "exit 7" INT; echo ready; while :; do sleep 0.02; done' 2>/dev/null`,
		signals: []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGQUIT, unix.SIGINT}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
	{name: "stopped and continued", script: `exec $W sh -c 'trap "exit 8" TERM; echo ready; kill -STOP $$; echo ready; while :; do sleep 0.02; done' 2>/dev/null`,
		signals: []unix.Signal{unix.SIGCONT, unix.SIGTERM}, differs: map[string]string{"flock": flockSignals, "timeout": timeoutGroup}},
}

// runResult is the result of a command.
type runResult struct {
	code int
	out  string
}

// compare runs a comparison's script with $W set to words.
func (p *testEnv) compare(c comparison, words string) runResult {
	r := p.shell(`W="` + words + `"; ` + c.script)
	for n, sig := range c.signals {
		eventually(p.t, func() bool { return strings.Count(r.text(r.out), "ready") > n }, "it is ready")
		if sig == unix.SIGCONT {
			eventually(p.t, func() bool { return anyStopped(r.Process.Pid) }, "it stops")
		}
		r.signal(sig)
	}
	_ = r.Wait()
	status := r.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() { // as a shell reports it
		code = exit.Signal + int(status.Signal())
	}
	return runResult{code, r.text(r.out)}
}

// anyStopped reports whether a process or one of its descendants is stopped.
func anyStopped(pid int) bool {
	found := false
	look := func(pid int) bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		found = found || strings.Contains(string(text), "State:\tT")
		return true
	}
	look(pid)
	descendants.Visit(pid, 0, look)
	return found
}

// leasing runs a command in the same way as flock(1), env(1), timeout(1) and tini. Programs that are not installed are left out.
func TestTrap_T227_RunIsLikeOthersOfItsKind_sqlite(t *testing.T) {
	t.Parallel()
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			require.NoError(t, os.MkdirAll(filepath.Join(p.folder, "bin"), 0o755))
			ours := p.compare(c, `$L run name --`)
			for program, words := range otherPrograms {
				_, err := exec.LookPath(program)
				switch reason := c.differs[program]; {
				case err != nil:
				case reason == "":
					require.Equal(t, newTestEnv(t).compare(c, words), ours, "beside "+program)
				case c.signals == nil:
					require.NotEqual(t, newTestEnv(t).compare(c, words), ours, reason)
				}
			}
		})
	}
}
