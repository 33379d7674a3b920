//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// maxWait bounds a wait that should be short, on a very slow machine.
const maxWait = time.Minute

// testEnv is a state folder of a test's own, with leases in an SQLite file.
type testEnv struct {
	t          *testing.T
	folder     string
	credential *syscall.Credential // the user that runs leasing; nil for this user
}

func newTestEnv(t *testing.T) *testEnv {
	p := &testEnv{t: t, folder: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(p.folder, "leasing"), 0o755))
	return p
}

// env returns an environment whose LEASING_URL names the file that --local uses.
func (p *testEnv) env() []string {
	return append(p.envWithoutURL(), "LEASING_URL=sqlite://"+filepath.Join(p.folder, "leasing", "leases.db")+"?create=true&history=true")
}

// envWithoutURL returns an environment without LEASING_URL.
func (p *testEnv) envWithoutURL() []string {
	return []string{
		"XDG_STATE_HOME=" + p.folder, "XDG_CONFIG_HOME=" + p.folder,
		"PATH=" + filepath.Join(p.folder, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
}

// file writes a file, and returns its path.
func (p *testEnv) file(text string) string {
	path := filepath.Join(p.t.TempDir(), "file")
	require.NoError(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// process is a leasing process.
type process struct {
	*exec.Cmd
	t        *testing.T
	out, err *os.File
}

// start starts leasing.
func (p *testEnv) start(args ...string) *process {
	p.t.Helper()
	env := p.env()
	if slices.Contains(args, "--config") {
		env = p.envWithoutURL()
	}
	r := &process{Cmd: asCommand(context.Background(), env, args...), t: p.t}
	var err error
	r.out, err = os.CreateTemp(p.folder, "out")
	require.NoError(p.t, err)
	r.err, err = os.CreateTemp(p.folder, "err")
	require.NoError(p.t, err)
	r.Stdout, r.Stderr, r.Dir = r.out, r.err, p.folder
	r.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential}
	require.NoError(p.t, r.Start())
	p.t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

func (r *process) text(of *os.File) string {
	text, err := os.ReadFile(of.Name())
	require.NoError(r.t, err)
	return string(text)
}

// awaitOutput waits until the command has printed a text.
func (r *process) awaitOutput(text string) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Log(r.text(r.err))
		}
	}()
	eventually(r.t, func() bool { return strings.Contains(r.text(r.out), text) }, "it prints "+text)
}

// eventually waits for a condition, in this goroutine.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(maxWait); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

func (r *process) signal(sig unix.Signal) { require.NoError(r.t, r.Process.Signal(sig)) }

// code waits for the end, and returns the exit code.
func (r *process) code() int {
	r.t.Helper()
	timer := time.AfterFunc(maxWait, func() { _ = r.Process.Kill() })
	defer timer.Stop()
	_ = r.Wait()
	return r.ProcessState.ExitCode()
}

// run runs leasing to its end.
func (p *testEnv) run(args ...string) (code int, out, problems string) {
	p.t.Helper()
	r := p.start(args...)
	code = r.code()
	return code, r.text(r.out), r.text(r.err)
}

func TestRunOnSQLitePassesTheExitCodeOn(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	script := filepath.Join(p.folder, "no-interpreter")
	require.NoError(t, os.WriteFile(script, []byte("#!/nosuch\n"), 0o755))
	for _, c := range []struct {
		code    int
		command []string
	}{
		{0, []string{"true"}},
		{3, []string{"sh", "-c", "exit 3"}},
		{128 + 9, []string{"sh", "-c", "kill -KILL $$"}},
		{128 + 15, []string{"sh", "-c", "kill -TERM $$"}},
		{exit.NotFound, []string{"no-such-command"}},
		{exit.NotExecutable, []string{"/etc/passwd"}},
		{exit.NotExecutable, []string{"/"}},
		{exit.NotFound, []string{script}},
	} {
		code, out, problems := p.run(append([]string{"run", "name", "--"}, c.command...)...)
		require.Equal(t, c.code, code, "%v: %s%s", c.command, out, problems)
		require.LessOrEqual(t, strings.Count(problems, "\n"), 1, problems)
	}
	code, out, _ := p.run("run", "name", "echo", "--", "-x") // the first -- may be left out
	require.Equal(t, 0, code)
	require.Equal(t, "-- -x\n", out)
}

// An empty setting may come from a variable that was not set. If it were ignored, another setting might name another
// backend.
func TestTrap_T107_EmptySettingsAreNoDefault_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{nil, []string{"--url", ""}},
		{nil, []string{"--config="}},
		{[]string{"LEASING_URL="}, nil},
		{[]string{"LEASING_CONFIG="}, nil},
		{nil, []string{"--config", p.file(`{"url": ""}`)}},
		{nil, []string{"--config", p.file(`{"owner": "me"} {"url": "redis://127.0.0.1"}`)}},
	} {
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), c.env...), append(append([]string{"run"}, c.args...), "name", "--", "true")...)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, exit.Failed, cmd.ProcessState.ExitCode(), "%v: %s", c, out)
		require.Regexp(t, "is empty|follows the first", string(out))
	}
	cmd := asCommand(t.Context(), append(p.env(), "LEASING_URL="), "run", "--url", "sqlite://"+p.folder+"/a.db?create=true", "name", "--", "true")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, busy := range []string{"256", "-1"} { // a shell would see 0, and 255
		code, _, problems := p.run("run", "-E", busy, "name", "--", "true")
		require.Equal(t, exit.Failed, code)
		require.Contains(t, problems, "--busy-code")
	}
}

// Without a URL no command runs. A job in a crontab has no login environment, so each machine would run the job under leases
// of its own.
func TestTrap_T137_WithoutAURLNothingRuns_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	runs := func(env []string, args ...string) (code int, out string) {
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), env...), args...)
		text, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(text)
	}
	for name, args := range everyCommand {
		if name == "man" || name == "version" {
			continue
		}
		code, out := runs(nil, append(strings.Fields(name), args...)...)
		require.Equal(t, map[bool]int{true: exit.No, false: exit.Failed}[name == "doctor"], code, "%s: %s", name, out)
		for _, way := range []string{"no backend: name one", "--url", "LEASING_URL", "config file", "--local"} {
			require.Contains(t, out, way, name)
		}
	}
	require.NoFileExists(t, filepath.Join(p.folder, "leasing", "leases.db"))
	code, out := runs(nil, "run", "--local", "name", "--", "echo", "done")
	require.Zero(t, code, out)
	require.Equal(t, "done\n", out)
	require.FileExists(t, filepath.Join(p.folder, "leasing", "leases.db"))
	code, out = runs([]string{"LEASING_URL=redis://127.0.0.1:1"}, "ls", "--local", "--all")
	require.Zero(t, code, out)
	require.Contains(t, out, "name")
	code, out = runs(nil, "doctor", "--local")
	require.Zero(t, code, out)
	require.Contains(t, out, "from --local: this user, on this machine")
	code, out = runs(nil, "ls", "--local", "--url", "redis://127.0.0.1:1")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, "want only one of the two")
}

// A path that begins with "~" is refused: cron and systemd do not expand "~", so the file would be in the working folder.
func TestTrap_T138_RelativeFoldersAreRefused_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	config := p.file(`{"url": "sqlite://leases.db?create=true"}`)
	for _, c := range []struct {
		env  []string
		args []string
		says string
	}{
		{[]string{"XDG_STATE_HOME=", "HOME=~"}, []string{"--local"}, `HOME is "~"`},
		{[]string{"XDG_STATE_HOME=", "HOME=home/me"}, []string{"--local"}, `HOME is "home/me"`},
		{[]string{"XDG_STATE_HOME=state"}, []string{"--local"}, `XDG_STATE_HOME is "state"`},
		{[]string{"XDG_STATE_HOME=~/state"}, []string{"--local"}, `XDG_STATE_HOME is "~/state"`},
		{[]string{"XDG_CONFIG_HOME=.config"}, []string{"--local"}, `XDG_CONFIG_HOME is ".config"`},
		{[]string{"XDG_CONFIG_HOME=", "HOME=."}, nil, `HOME is "."`},
		{[]string{"LEASING_URL=sqlite://leases.db?create=true"}, nil, "LEASING_URL: the path of the SQLite file is relative"},
		{[]string{"LEASING_URL=sqlite://var/lib/leases.db?create=true"}, nil, "LEASING_URL: the path"},
		{nil, []string{"--url", "sqlite://~/leases.db?create=true"}, "--url: the path"},
		{nil, []string{"--url", "sqlite://./leases.db?create=true"}, "--url: the path"},
		{nil, []string{"--config", config}, "the config file: the path"},
	} {
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), c.env...), append(append([]string{"run"}, c.args...), "name", "--", "true")...)
		cmd.Dir = t.TempDir()
		out, _ := cmd.CombinedOutput()
		require.Equal(t, exit.Failed, cmd.ProcessState.ExitCode(), "%v: %s", c, out)
		require.Contains(t, string(out), c.says)
		made, err := os.ReadDir(cmd.Dir)
		require.NoError(t, err)
		require.Empty(t, made, "%v", c)
	}
	for _, env := range [][]string{{"XDG_STATE_HOME=", "HOME=" + p.folder}, {"HOME=~"}} { // if both folders are set, HOME is not read
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), env...), "run", "--local", "name", "--", "true")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// Two machines that share a home might not see each other's locks on a file. A FUSE mount of a folder models the
// shared home.
func TestTrap_T139_AFileOnANetworkDiskIsRefused_fuse(t *testing.T) {
	t.Parallel()
	bindfs, err := exec.LookPath("bindfs")
	if err != nil || os.Getuid() != 0 {
		t.Skip("this machine has no bindfs, or this user may not mount")
	}
	p, real := newTestEnv(t), t.TempDir()
	mount := filepath.Join(t.TempDir(), "mount")
	require.NoError(t, os.Mkdir(mount, 0o700))
	if out, err := exec.Command(bindfs, real, mount).CombinedOutput(); err != nil {
		t.Skip("this machine can't mount with FUSE: " + string(out))
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mount, unix.MNT_DETACH)) })
	link := filepath.Join(p.folder, "link.db")
	require.NoError(t, os.Symlink(filepath.Join(mount, "linked.db"), link))
	for _, args := range [][]string{
		{"run", "--local", "name", "--", "true"},
		{"run", "--url", "sqlite://" + mount + "/leases.db?create=true", "name", "--", "true"},
		{"run", "--url", "sqlite://" + link + "?create=true", "name", "--", "true"},
		{"run", "--url", "file://" + mount + "/folder?create=true", "name", "--", "true"},
		{"doctor", "--local"},
	} {
		cmd := asCommand(t.Context(), append(p.envWithoutURL(), "XDG_STATE_HOME="+mount), args...)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, map[bool]int{true: exit.No, false: exit.Failed}[args[0] == "doctor"], cmd.ProcessState.ExitCode(), "%v: %s", args, out)
		require.Contains(t, string(out), "is on FUSE")
		require.Contains(t, string(out), "one_host=true")
		require.NotContains(t, string(out), "schema")
	}
	files, err := filepath.Glob(real + "/*/*.db*")
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestRunOnSQLitePassesTheLeaseInTheEnvironment(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	code, out, _ := p.run("run", "--owner", "me", "name", "--", "sh", "-c", `echo "$LEASING_NAME $LEASING_OWNER $LEASING_TOKEN $LEASING_ID"`)
	require.Equal(t, 0, code)
	require.Regexp(t, `^name me \d{16} \S+\n$`, out)
	_, record, _ := p.run("inspect", "name")
	require.Contains(t, record, strings.Fields(out)[2], "the token that the backend has given out")
}

func TestRunOnSQLiteIsBusy(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "name", "--", "sh", "-c", "echo ready; sleep 60")
	holder.awaitOutput("ready")
	code, _, problems := p.run("run", "name", "--", "true")
	require.Equal(t, exit.Busy, code, problems)
	code, _, problems = p.run("run", "-E", "0", "--wait", "50ms", "name", "--", "true")
	require.Equal(t, 0, code)
	require.Empty(t, problems)
	waiter := p.start("run", "--wait", "forever", "name", "--", "echo", "got it")
	for pause, code := 100*time.Millisecond, -1; code == -1; pause *= 2 { // until the signal arrives after the wait has begun
		ended := p.start("run", "--wait", "forever", "name", "--", "true")
		<-time.After(pause)
		ended.signal(unix.SIGHUP)
		code = ended.code()
		require.Contains(t, []int{-1, 128 + 1}, code, "a signal ends the wait")
	}
	holder.signal(unix.SIGTERM)
	require.Equal(t, 128+15, holder.code())
	require.Equal(t, 0, waiter.code())
	waiter.awaitOutput("got it")
}

func TestRunOnSQLiteForwardsSignals(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "name", "--", "sh", "-c", `for s in HUP INT QUIT USR1 USR2 TERM; do trap "echo $s" $s; done; echo ready; while true; do sleep 0.02; done`)
	r.awaitOutput("ready")
	for name, sig := range map[string]unix.Signal{"USR1": unix.SIGUSR1, "HUP": unix.SIGHUP, "INT": unix.SIGINT, "TERM": unix.SIGTERM} {
		r.signal(sig)
		r.awaitOutput(name)
	}
	r.signal(unix.SIGKILL)
	r.code()
}

// TERM also ends a command that is stopped, for example because it has read from the terminal in the background.
func TestRunOnSQLiteEndsAStoppedCommand(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "name", "--", "sh", "-c", "echo $$.; kill -STOP $$; sleep 1000")
	r.awaitOutput(".\n")
	eventually(t, func() bool {
		status, _ := os.ReadFile("/proc/" + strings.TrimSuffix(strings.TrimSpace(r.text(r.out)), ".") + "/status")
		return strings.Contains(string(status), "State:\tT")
	}, "it stops")
	r.signal(unix.SIGTERM)
	require.Equal(t, 128+15, r.code())
}

// The whole group ends with the command, and no other claim gets the lease earlier.
func TestRunOnSQLiteLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	code, out, _ := p.run("run", "name", "--", "sh", "-c", "sleep 1000 & echo $!")
	require.Equal(t, 0, code)
	require.Equal(t, unix.ESRCH, unix.Kill(-atoi(t, strings.TrimSpace(out)), 0))
	require.NoFileExists(t, "/proc/"+strings.TrimSpace(out))
}

func TestRunOnSQLiteWhenTheLeaseIsBroken(t *testing.T) {
	t.Parallel()
	for onLoss, want := range map[string]struct {
		code int
		out  string
	}{
		"term":   {exit.Lost, "ready\nTERM\n"},
		"kill":   {exit.Lost, "ready\n"},
		"ignore": {5, "ready\nend\n"},
	} {
		t.Run(onLoss, func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			r := p.start("run", "--ttl", "3s", "--on-loss", onLoss, "--grace", "1s", "name", "--",
				"sh", "-c", `trap 'echo TERM; exit 0' TERM; echo ready; for i in 1 2 3 4 5 6 7 8; do sleep 0.5; done; echo end; exit 5`)
			r.awaitOutput("ready")
			code, _, problems := p.run("break", "--yes", "--actor", "op", "--reason", "a test", "name")
			require.Equal(t, 0, code, problems)
			require.Equal(t, want.code, r.code(), r.text(r.err))
			require.Equal(t, want.out, r.text(r.out))
			require.Contains(t, r.text(r.err), `broken by "op" (a test)`)
		})
	}
}

// A command that ignores TERM gets KILL before the command of another holder can begin.
func TestRunOnSQLiteWhenTheBackendIsGone(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "--ttl", "2s", "--grace", "500ms", "name", "--", "sh", "-c", `trap 'echo TERM' TERM; echo ready; while true; do sleep 0.1; done`)
	r.awaitOutput("ready")
	// Take the lock of the one writer, WAL_WRITE_LOCK (sqlite.org/walformat.html#locks), so that no
	// renewal succeeds.
	shared, err := os.OpenFile(filepath.Join(p.folder, "leasing", "leases.db-shm"), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 120, Len: 1}
	require.Eventually(t, func() bool { return unix.FcntlFlock(shared.Fd(), unix.F_SETLK, &lock) == nil }, time.Minute, time.Millisecond)
	require.Equal(t, exit.Lost, r.code(), r.text(r.err))
	require.Contains(t, r.text(r.out), "TERM")
}

// If the database is deleted, the lease is certainly lost: another process may have the name in a
// new database, so the command is killed at once.
func TestRunOnSQLiteWhenTheDatabaseIsDeleted(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "--ttl", "2s", "--grace", "500ms", "name", "--", "sh", "-c", `trap '' TERM; echo ready; while true; do sleep 0.1; done`)
	r.awaitOutput("ready")
	require.NoError(t, os.RemoveAll(filepath.Join(p.folder, "leasing")))
	require.Equal(t, exit.Lost, r.code(), r.text(r.err))
	require.Contains(t, r.text(r.err), "gone")
}

// While leasing is stopped, its command dies before another claim has the lease, and leasing reports the loss when it
// continues.
func TestRunOnSQLiteWhenLeasingIsStopped(t *testing.T) {
	t.Parallel()
	for _, ended := range []unix.Signal{unix.SIGCONT, unix.SIGKILL} {
		t.Run(unix.SignalName(ended), func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			r := p.start("run", "--ttl", "2s", "name", "--", "sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $!.; while true; do sleep 0.1; done")
			r.awaitOutput(".\n")
			var command, child int
			_, err := fmt.Sscanf(r.text(r.out), "%d %d", &command, &child)
			require.NoError(t, err)
			stopBetweenWrites(p, r)
			alive := fmt.Sprintf(`grep -l '^State:.[^Z]' /proc/%d/status /proc/%d/status`, command, child)
			next := p.start("run", "--wait", "forever", "name", "--", "sh", "-c", alive)
			require.NotZero(t, next.code(), "grep finds nothing")
			require.Empty(t, next.text(next.out))
			r.signal(ended)
			require.Equal(t, map[unix.Signal]int{unix.SIGCONT: exit.Lost, unix.SIGKILL: -1}[ended], r.code(), r.text(r.err))
		})
	}
}

// When leasing and its guard are killed at the same time, the kernel still ends the command.
func TestRunOnSQLiteWhenLeasingAndGuardAreKilled(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "name", "--", "sh", "-c", "echo $$ $PPID.; exec sleep 1000")
	r.awaitOutput(".\n")
	var command, guard int
	_, err := fmt.Sscanf(r.text(r.out), "%d %d", &command, &guard)
	require.NoError(t, err)
	r.signal(unix.SIGSTOP)
	require.NoError(t, unix.Kill(guard, unix.SIGKILL))
	r.signal(unix.SIGKILL)
	require.Equal(t, -1, r.code())
	eventually(t, func() bool { return unix.Kill(command, 0) == unix.ESRCH }, "the end of the command")
}

func TestRunOnSQLiteKeepsTheLeaseAtLeast(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	begin := time.Now()
	code, _, problems := p.run("run", "--at-least", "700ms", "name", "--", "true")
	require.Equal(t, 0, code, problems)
	code, _, problems = p.run("run", "--wait", "forever", "name", "--", "true")
	require.Equal(t, 0, code, problems)
	require.GreaterOrEqual(t, time.Since(begin), 700*time.Millisecond)
}

// With nohup both leasing and the command ignore HUP.
func TestRunOnSQLiteRespectsNohup(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	r := p.start("run", "name", "--", "true")
	require.Equal(t, 0, r.code())
	cmd := asCommand(context.Background(), p.env())
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP; exec "$0" run name -- sh -c 'kill -HUP $$; echo alive'`, "/proc/" + itoa(os.Getpid()) + "/exe"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "alive\n", string(out))
}

func TestElectOnSQLite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	work := []string{"--ttl", "3s", "--pause", "10s", "--on-lost", `echo "over $LEASING_EXIT"`, "name", "--", "sh", "-c", "echo leads; sleep 1000"}
	leader := p.start(append([]string{"elect"}, work...)...)
	leader.awaitOutput("leads")
	follower := p.start(append([]string{"elect"}, work...)...)
	code, _, problems := p.run("break", "--yes", "name")
	require.Equal(t, 0, code, problems)
	leader.awaitOutput("over 124")
	follower.awaitOutput("leads")
	follower.signal(unix.SIGTERM)
	require.Equal(t, 128+15, follower.code(), follower.text(follower.err))
	require.Contains(t, follower.text(follower.out), "over 143")
	eventually(t, func() bool { return strings.Count(leader.text(leader.out), "leads") == 2 }, "it stands again")
	leader.signal(unix.SIGTERM)
	require.Equal(t, 128+15, leader.code())
}

// A wait for a lease includes a wait for the server, even if the server has no tables yet.
func TestRunWaitsForTheServer_postgres(t *testing.T) {
	t.Parallel()
	server, p := servertest.NewPostgres(t), newTestEnv(t)
	pid := server.PID()
	require.NoError(t, unix.Kill(pid, unix.SIGQUIT))
	eventually(t, func() bool { return unix.Kill(pid, 0) == unix.ESRCH }, "the server's end")
	url := server.URL + "&create=true"
	code, _, problems := p.run("run", "--url", url, "--wait", "300ms", "name", "--", "true")
	require.Equal(t, exit.Failed, code)
	require.Regexp(t, `\Aleasing: .*backend unavailable.*\n\z`, problems)
	waiter := p.start("run", "--url", url, "--wait", "1m", "name", "--", "echo", "got it")
	candidate := p.start("elect", "--url", url, "--terms", "1", "name", "--", "echo", "leads")
	impatient := p.start("run", "--url", url, "--wait", "forever", "name", "--", "true")
	for _, r := range []*process{waiter, candidate, impatient} {
		eventually(t, func() bool { return strings.Contains(r.text(r.err), "backend unavailable") }, "it says why it waits")
	}
	impatient.signal(unix.SIGQUIT)
	require.Equal(t, 128+3, impatient.code())
	require.NoError(t, server.LaunchOn(t.Context(), server.Port()))
	require.Zero(t, waiter.code(), waiter.text(waiter.err))
	waiter.awaitOutput("got it")
	require.Zero(t, candidate.code(), candidate.text(candidate.err))
	candidate.awaitOutput("leads")
	server.Pause()
	waiter = p.start("run", "--url", url, "--timeout", "2s", "--wait", "1m", "name", "--", "true")
	eventually(t, func() bool { return strings.Contains(waiter.text(waiter.err), "no answer in time") }, "it says why it waits")
	server.Resume()
	require.Zero(t, waiter.code(), waiter.text(waiter.err))
}
