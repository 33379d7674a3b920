//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// exe returns the path of this program, for shells.
func exe(t *testing.T) string {
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// shell runs a bash script in which $L is leasing.
func (p *testEnv) shell(script string) *process {
	p.t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		p.t.Skip("this machine has no bash")
	}
	r := &process{Cmd: exec.Command(bash, "-c", script), t: p.t}
	r.Env = append(append(os.Environ(), p.env()...), "LEASING_TEST_AS_COMMAND=1", "L="+exe(p.t))
	r.out, err = os.CreateTemp(p.folder, "out")
	require.NoError(p.t, err)
	r.err, err = os.CreateTemp(p.folder, "err")
	require.NoError(p.t, err)
	r.Stdout, r.Stderr, r.Dir = r.out, r.err, p.folder
	require.NoError(p.t, r.Start())
	p.t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

// children returns the children of a process, in the order in which they began.
func children(t *testing.T, pid int) (all []int) {
	for _, child := range strings.Fields(childrenOf(pid)) {
		all = append(all, atoi(t, child))
	}
	return all
}

// guards waits for both guards of a run.
func (r *process) guards() (outer, inner int) {
	r.t.Helper()
	eventually(r.t, func() bool {
		for _, pid := range childrenByTask(r.Process.Pid) {
			for _, below := range children(r.t, pid) {
				outer, inner = pid, below
			}
		}
		return inner != 0
	}, "the guards")
	return outer, inner
}

// If one of the three processes is killed while another is stopped, the third ends the command with all its
// descendants before another holder begins.
func TestTrap_T213_AGuardIsKilledWhileLeasingIsStopped_sqlite(t *testing.T) {
	servertest.Thorough(t)
	t.Parallel()
	for _, wrapper := range []string{"timeout", "setsid that forks", "double fork"} {
		for failure, do := range map[string]func(p *testEnv, r *process, outer, inner int){
			"the outer guard":            func(p *testEnv, r *process, outer, _ int) { stopBetweenWrites(p, r); kill(outer, unix.SIGKILL) },
			"the inner guard":            func(p *testEnv, r *process, _, inner int) { stopBetweenWrites(p, r); kill(inner, unix.SIGKILL) },
			"the outer guard is stopped": func(p *testEnv, r *process, outer, _ int) { stopBetweenWrites(p, r); kill(outer, unix.SIGSTOP) },
			"the inner guard is stopped": func(p *testEnv, r *process, _, inner int) { stopBetweenWrites(p, r); kill(inner, unix.SIGSTOP) },
			"leasing, and the inner guard is stopped": func(_ *testEnv, r *process, _, inner int) {
				kill(inner, unix.SIGSTOP)
				r.signal(unix.SIGKILL)
			},
			"leasing and the outer guard": func(_ *testEnv, r *process, outer, _ int) {
				kill(outer, unix.SIGKILL)
				r.signal(unix.SIGKILL)
			},
		} {
			if testing.Short() && failure != "the inner guard" {
				continue
			}
			t.Run(wrapper+", "+failure, func(t *testing.T) {
				t.Parallel()
				p := newTestEnv(t)
				journal := filepath.Join(p.folder, "journal")
				job := exe(t) + " " + journalName + " " + journal + " 40s stubborn"
				r := p.start("run", "--ttl", "2s", "name", "--", "env", "LEASING_TEST_RUN=first", "J="+job, "sh", "-c", wrappers[wrapper])
				eventually(t, func() bool { return journaled(journal) > 20 }, "the job works")
				outer, inner := r.guards()
				do(p, r, outer, inner)
				next := p.start("run", "--wait", "forever", "name", "--", "env", "LEASING_TEST_RUN=next", "LEASING_TEST_LEAF=1", exe(t), journalName, journal, "300ms")
				require.Equal(t, journalCode, next.code(), next.text(next.err))
				lines := readJournal(t, journal)
				first := slices.IndexFunc(lines, func(w journalLine) bool { return w.run == "next" })
				require.Positive(t, first)
				for _, w := range lines[first:] {
					require.Equal(t, "next", w.run, "the old holder works beside the next one")
				}
				kill(outer, unix.SIGCONT)
				kill(inner, unix.SIGCONT)
				kill(r.Process.Pid, unix.SIGCONT)
				r.code()
				for _, w := range lines[:first] {
					eventually(t, func() bool { return unix.Kill(w.pid, 0) == unix.ESRCH }, fmt.Sprintf("the end of %d", w.pid))
				}
			})
		}
	}
}

// Processes that the command has started may finish their output, and no process outlives the run.
func TestTrap_T214_TheLastOutputArrives_sqlite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		code   int
		out    string
	}{
		"process substitution":     {`exec > >(while read -r l; do sleep 0.1; echo "log: $l"; done); echo FATAL; exit 3`, 3, "log: FATAL\n"},
		"a pipe in the background": {`{ sleep 0.3; echo last; } & exit 4`, 4, "last\n"},
		"in a session of its own":  {`setsid sh -c 'sleep 0.3; echo last' & exit 0`, 0, "last\n"},
		"TERM is caught":           {`(exec 2>/dev/null; trap 'echo caught; exit' TERM; while :; do sleep 0.05; done) & sleep 0.3; exit 5`, 5, "caught\n"},
		"TERM is ignored":          {`(trap '' TERM; while :; do sleep 0.05; done) & sleep 0.1; exit 6`, 6, ""},
		"a stopped one":            {`(trap 'echo caught; exit' TERM; kill -STOP $BASHPID; sleep 40) & sleep 0.3; exit 7`, 7, "caught\n"},
		"nothing is left":          {`echo done; exit 8`, 8, "done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			r := p.start("run", "name", "--", "bash", "-c", c.script)
			require.Equal(t, c.code, r.code(), r.text(r.err))
			require.Equal(t, c.out, r.text(r.out))
			require.Empty(t, r.text(r.err))
			code, _, problems := p.run("run", "name", "--", "true")
			require.Zero(t, code, problems)
		})
	}
}

// signalled are the signals that are passed on, except those that a terminal's shell or Go itself needs.
var signalled = []unix.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGWINCH,
	unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, 40, 64,
}

func TestTrap_T215_EverySignalReachesTheCommand_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	script := "use POSIX; $| = 1;"
	for _, sig := range signalled {
		script += fmt.Sprintf(` POSIX::sigaction(%d, POSIX::SigAction->new(sub { print "got %d.\n" })) or die;`, sig, sig)
	}
	r := p.start("run", "name", "--", "perl", "-e", script+` print "ready\n"; select(undef, undef, undef, 0.05) while 1`)
	r.awaitOutput("ready")
	for _, sig := range signalled {
		r.signal(sig)
		r.awaitOutput(fmt.Sprintf("got %d.", sig))
	}
	require.NoError(t, unix.Kill(children(t, func() int { _, inner := r.guards(); return inner }())[0], unix.SIGKILL))
	require.Equal(t, 128+9, r.code(), r.text(r.err))

	// By default these signals end the command, or the wait for the lease, with exit code 128 plus their number.
	holder := p.start("run", "name", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	for _, sig := range signalled {
		if sig == unix.SIGWINCH {
			continue
		}
		waiter := p.start("run", "--owner", "waiter", "--wait", "forever", "name", "--", "true")
		eventually(t, func() bool { return catchesSignal(waiter.Process.Pid, sig) }, "it catches signals")
		waiter.signal(sig)
		require.Equal(t, 128+int(sig), waiter.code(), "%s: %s", unix.SignalName(sig), waiter.text(waiter.err))
	}
	holder.signal(unix.SIGALRM)
	require.Equal(t, 128+14, holder.code(), holder.text(holder.err))
}

// catchesSignal reports whether a process has installed its signal handlers: leasing opens leases.db only afterwards.
func catchesSignal(pid int, sig unix.Signal) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.HasSuffix(target, "leases.db") {
			return true
		}
	}
	return false
}

func TestTrap_T216_IgnoredSignalsStayIgnored_sqlite(t *testing.T) {
	t.Parallel()
	names := []string{"HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "TSTP", "TTIN", "TTOU", "XCPU", "XFSZ", "VTALRM", "IO", "PWR"}
	for _, ignored := range append([][]string{nil, names}, slices.Collect(slices.Chunk(names, 1))...) {
		t.Run("of "+strings.Join(ignored, " "), func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			show := `grep SigIgn /proc/self/status`
			trap := ""
			if len(ignored) > 0 {
				trap = "trap '' " + strings.Join(ignored, " ") + "; "
			}
			r := p.shell(trap + show + `; exec "$L" run name -- ` + show)
			require.Zero(t, r.code(), r.text(r.err))
			before, after, _ := strings.Cut(r.text(r.out), "\n")
			require.Equal(t, before+"\n", after)
		})
	}
	p := newTestEnv(t)
	r := p.shell(`trap '' TERM; exec "$L" run name -- sh -c 'echo ready; sleep 0.5; echo alive'`)
	r.awaitOutput("ready")
	r.signal(unix.SIGTERM)
	_, inner := r.guards()
	kill(inner, unix.SIGTERM)
	require.Zero(t, r.code(), r.text(r.err))
	require.Equal(t, "ready\nalive\n", r.text(r.out))
}

// Signals reach the command even if standard error is a full pipe whose reader is paused or gone.
func TestTrap_T217_AFullStandardErrorBlocksNoSignal_sqlite(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone %v", gone), func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			defer write.Close()
			raw, err := write.SyscallConn()
			require.NoError(t, err)
			require.NoError(t, raw.Control(func(fd uintptr) {
				for _, size := range []int{4096, 1} {
					for err == nil {
						_, err = unix.Write(int(fd), make([]byte, size)) // the file is non-blocking
					}
					require.Equal(t, unix.EAGAIN, err)
					err = nil
				}
			}))
			r := &process{Cmd: asCommand(context.Background(), p.env(), "run", "--ttl", "3s", "name", "--", "sh", "-c", `exec 2>/dev/null; trap 'echo TERM; exit 0' TERM; echo ready; while :; do sleep 0.05; done`), t: t}
			r.out, err = os.CreateTemp(p.folder, "out")
			require.NoError(t, err)
			r.Stdout, r.Stderr, r.Dir = r.out, write, p.folder
			require.NoError(t, r.Start())
			t.Cleanup(func() { _ = r.Process.Kill() })
			r.err = r.out
			r.awaitOutput("ready")
			if gone {
				require.NoError(t, read.Close())
			}
			p.breakLease()
			require.Equal(t, exit.Lost, r.code())
			require.Equal(t, "ready\nTERM\n", r.text(r.out), "while the lease was good, and not killed")
		})
	}
}

// A command in a pipeline can read from the terminal.
func TestTrap_T218_ACommandInAPipelineReadsTheTerminal_sqlite(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"standard input":   `"$L" run name -- sh -c 'echo ready >&2; read a; echo "got $a"' | cat`,
		"the device":       `"$L" run name -- sh -c 'echo ready >&2; read a < /dev/tty; echo "got $a"' < /dev/null | cat`,
		"a file as output": `"$L" run name -- sh -c 'echo ready >&2; read a; echo "got $a"' > out; cat out`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, p := newTerminal(t), newTestEnv(t)
			shell := asCommand(context.Background(), append(p.env(), "L="+exe(t)))
			shell.Path, shell.Args = "/bin/sh", []string{"sh", "-mc", command + `; echo "over"`}
			r := x.startAs(p, shell)
			x.prints("ready")
			x.types("one\n")
			x.prints("got one")
			x.prints("over")
			x.prints("the command uses the terminal")
			require.Zero(t, r.code())
		})
	}
}

// The files that the shell has opened reach the command, whatever their numbers, and other files do not.
func TestTrap_T219_FilesPassThrough_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.shell(`exec 3>three 4>four 5>five 9>nine 17>seventeen; "$L" run name -- sh -c 'ls /proc/self/fd' ; "$L" run name -- bash -c 'for n in 3 4 5 9 17; do echo $n >&$n; done'; cat three four five nine seventeen`)
	require.Zero(t, r.code(), r.text(r.err))
	got := strings.Fields(r.text(r.out))
	direct := p.shell(`exec 3>three 4>four 5>five 9>nine 17>seventeen; sh -c 'ls /proc/self/fd'; echo 3 4 5 9 17`)
	require.Zero(t, direct.code())
	require.Equal(t, strings.Fields(direct.text(direct.out)), got)

	if _, err := exec.LookPath("make"); err == nil {
		require.NoError(t, os.WriteFile(filepath.Join(p.folder, "Makefile"), []byte("all:\n\t+@\"$$L\" run name -- make -s below\nbelow: a b\na b:\n\t@echo $@\n"), 0o600))
		r = p.shell(`make -s -j2`)
		require.Zero(t, r.code(), r.text(r.err))
		require.Empty(t, r.text(r.err), "the jobserver is there")
	}

	// systemd's socket activation names the process that is to receive the files.
	r = p.shell(`exec 3>three; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$L" run name -- bash -c 'echo $((LISTEN_PID - $$)) $LISTEN_FDS; echo x >&3'`)
	require.Zero(t, r.code(), r.text(r.err))
	require.Equal(t, "0 1\n", r.text(r.out))
	r = p.shell(`export LISTEN_FDS=1 LISTEN_PID=1; exec "$L" run name -- sh -c 'echo $LISTEN_PID'`)
	require.Zero(t, r.code(), r.text(r.err))
	require.Equal(t, "1\n", r.text(r.out), "it was meant for another process")
}

// A command is found by its name in the same way as by execvp(3).
func TestTrap_T220_CommandsAreFoundAsExecvpDoes_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	make := func(name, text string, mode os.FileMode) {
		path := filepath.Join(p.folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	make("tools/plain", "echo plain $0 $1\n", 0o755)
	make("tools/hashed", "#!/bin/sh\necho hashed $0\n", 0o755)
	make("tools/data", "x", 0o644)
	make("tools/empty", "", 0o755)
	make("other/data", "#!/bin/sh\necho other\n", 0o755)
	make("tools/\xff\xfe", "#!/bin/sh\necho odd\n", 0o755)
	make("tools/lost", "#!/nosuch/interpreter\n", 0o755)
	require.NoError(t, os.Symlink("/bin/sh", filepath.Join(p.folder, "tools", "shell")))
	for i, c := range []string{
		"tools/plain a", "./tools/plain a", "PATH=tools:$PATH plain a", "PATH=tools:$PATH hashed", "cd tools; PATH=:$PATH plain a", "cd tools; PATH=.:$PATH plain a",
		"cd tools; PATH=$PATH: plain a", "PATH=tools:other:$PATH data", "PATH=tools:$PATH data", "tools/data", "tools", "tools/", "tools/plain/x", "tools/empty",
		"nosuch", "./nosuch", "''", "PATH=tools:$PATH $'\\xff\\xfe'", "tools/$'\\xff\\xfe'", "tools/lost", "tools/shell -c 'echo $0'", "PATH=tools:$PATH shell -c 'echo $0'", "PATH=/nosuch nosuch",
	} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			before, command := "", c
			if cut := strings.LastIndex(c, "; "); cut > 0 {
				before, command = c[:cut+2], c[cut+2:]
			}
			setting := ""
			if strings.HasPrefix(command, "PATH=") {
				setting, command, _ = strings.Cut(command, " ")
			}
			ours := p.shell(before + setting + ` "$L" run ` + strconv.Itoa(i) + ` -- ` + command)
			yardstick := p.shell(before + setting + ` /usr/bin/env -- ` + command)
			if command == "''" { // env(1) would print the environment
				require.Equal(t, exit.NotFound, ours.code())
				return
			}
			want := yardstick.code()
			require.Equal(t, want, ours.code(), ours.text(ours.err))
			require.Equal(t, yardstick.text(yardstick.out), ours.text(ours.out))
			require.Equal(t, yardstick.text(yardstick.err) == "", ours.text(ours.err) == "", ours.text(ours.err))
		})
	}
}

func TestTrap_T221_AtLeastHoldsWhateverEndsTheRun_sqlite(t *testing.T) {
	t.Parallel()
	const atLeast = 4 * time.Second
	for name, end := range map[string]func(r *process){
		"the command": func(r *process) {
			_, inner := r.guards()
			kill(children(r.t, inner)[0], unix.SIGKILL)
		},
		"TERM":   func(r *process) { r.signal(unix.SIGTERM) },
		"KILL":   func(r *process) { r.signal(unix.SIGKILL) },
		"guards": func(r *process) { outer, inner := r.guards(); kill(outer, unix.SIGKILL); kill(inner, unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			began := time.Now()
			r := p.start("run", "--ttl", "1s", "--at-least", atLeast.String(), "name", "--", "sh", "-c", "echo ready; exec sleep 1000")
			r.awaitOutput("ready")
			end(r)
			r.code()
			code, _, problems := p.run("run", "--wait", "forever", "name", "--", "true")
			require.Zero(t, code, problems)
			require.GreaterOrEqual(t, time.Since(began), atLeast)
			require.Less(t, time.Since(began), atLeast+maxWait/2)
		})
	}
}

func TestTrap_T223_NestedRunsOfOneNameAreRefused_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	l := exe(t)
	for _, nested := range [][]string{
		{"run", "name", "--", l, "run", "--wait", "forever", "name", "--", "echo", "ran"},
		{"run", "name", "--", l, "run", "-E", "0", "name", "--", "echo", "ran"},
		{"run", "name", "--", l, "run", "other", "--", "env", "sh", "-c", `"$0" run --wait 1h name -- echo ran`, l},
		{"run", "name", "--", l, "elect", "name", "--", "echo", "ran"},
		{"run", "name", "--", l, "wait", "name"},
	} {
		code, out, problems := p.run(nested...)
		require.Equal(t, exit.Failed, code, "%v: %s%s", nested, out, problems)
		require.Contains(t, problems, "part of the run that holds the lease")
		require.NotContains(t, out, "ran")
	}
	other := newTestEnv(t)
	code, out, problems := p.run("run", "name", "--", "env", "LEASING_URL=sqlite://"+filepath.Join(other.folder, "other.db")+"?create=true", l, "run", "name", "--", "echo", "ran")
	require.Zero(t, code, problems)
	require.Equal(t, "ran\n", out, "the same name of other leases")
	holder := p.start("run", "other", "--", "sh", "-c", "echo ready; read a; sleep 1000")
	holder.awaitOutput("ready")
	code, _, problems = p.run("run", "name", "--", l, "run", "other", "--", "true")
	require.Equal(t, exit.Busy, code, problems)
}

func TestTrap_T224_ADefaultConfigThatIsNotNeededIsNotRead_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	folder := filepath.Join(p.folder, "leasing", "config.json")
	require.NoError(t, os.Mkdir(folder, 0o755)) // reading it fails even for root
	url := "sqlite://" + filepath.Join(p.folder, "a.db") + "?create=true"
	for _, c := range []struct {
		env  []string
		args []string
		code int
	}{
		{nil, []string{"--url", url}, 0},
		{[]string{"LEASING_URL=" + url}, nil, 0},
		{nil, nil, exit.Failed},
		{nil, []string{"--url", url, "--config", folder}, exit.Failed},
		{[]string{"LEASING_CONFIG=" + folder}, []string{"--url", url}, exit.Failed},
	} {
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), c.env...), append(append([]string{"run"}, c.args...), "name", "--", "true")...)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v: %s", c, out)
	}
}

// If SQLite does not fit into the limit on address space, leasing reports that and exits with 125, and does not
// panic.
func TestTrap_T225_TooLittleAddressSpaceIsReported_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	arenas := "MALLOC_ARENA_MAX=1"                                                                                              // otherwise each thread of a program with cgo takes 64 MiB
	first := asCommand(t.Context(), append(p.env(), arenas), "run", "name", "--", "sh", "-c", "grep VmPeak /proc/$PPID/status") // of the guard, which does not use SQLite
	text, err := first.Output()
	require.NoError(t, err)
	out := string(text)
	used := atoi(t, strings.TrimSuffix(strings.Fields(out)[1], "kB"))
	for _, command := range [][]string{{"run", "name", "--", "true"}, {"doctor"}} {
		limit := uint64(used)<<10 + 300<<20
		cmd := asCommand(t.Context(), append(p.env(), arenas), command...)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		cmd.Stdin = read // of the shell that waits for its limit
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `read go; exec "$0" "$@"`, exe(t)}, command...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}, nil))
		_, err = io.WriteString(write, "go\n")
		require.NoError(t, err)
		require.NoError(t, errors.Join(write.Close(), read.Close()))
		_ = cmd.Wait()
		if strings.Contains(out.String(), "ThreadSanitizer") {
			t.Skip("the race detector needs more address space than that")
		}
		require.Equal(t, map[bool]int{true: exit.No, false: exit.Failed}[command[0] == "doctor"], cmd.ProcessState.ExitCode(), out.String())
		require.Contains(t, out.String(), "ulimit -v leaves no room for SQLite")
		require.NotContains(t, out.String(), "panic")
	}
}

// Without /proc no descendants are found: run refuses, and doctor names the reason.
func TestTrap_T226_WithoutProcRunAndDoctorAgree_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for _, command := range []string{"run name -- true", "doctor"} {
		cmd := asCommand(t.Context(), append(p.env(), "L="+exe(t)))
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "mount -t tmpfs none /proc && exec \"$L\" " + command}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Skipf("this user may not mount: %v", err)
		}
		if strings.Contains(string(out), "mount:") {
			t.Skip("this user may not mount: " + string(out))
		}
		require.Equal(t, map[bool]int{true: exit.No, false: exit.Failed}[command == "doctor"], cmd.ProcessState.ExitCode(), string(out))
		require.Contains(t, string(out), "/proc is not mounted")
	}
}

// A signal ends a wait with exit code 128 plus its number, even in the first process of a container, for which
// signals do nothing by default.
func TestTrap_T228_ASignalEndsAWait_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "name", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	for _, cloned := range []uintptr{0, unix.CLONE_NEWPID} {
		r := &process{Cmd: asCommand(context.Background(), p.env(), "wait", "name"), t: t}
		r.SysProcAttr = &syscall.SysProcAttr{Cloneflags: cloned}
		if err := r.Start(); err != nil && cloned != 0 {
			t.Skipf("this user makes no first process: %v", err)
		}
		eventually(t, func() bool { return catchesSignal(r.Process.Pid, unix.SIGTERM) }, "it waits")
		r.signal(unix.SIGTERM)
		require.Equal(t, 128+15, r.code())
	}
}
