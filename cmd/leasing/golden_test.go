//go:build linux

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

var update = flag.Bool("update", false, "write the golden files")

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// varyingTexts has replacements for texts that differ from run to run.
var varyingTexts = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^(ok|note) +latency .*$`), "ok  latency  PINGS"}, // on a busy machine it is a note
	{regexp.MustCompile(`"(ok|note)","check":"latency","text":".*"`), `"ok","check":"latency","text":"PINGS"`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`(_s":)[0-9.e-]+`), "${1}SECONDS"},
	{regexp.MustCompile(`\b\d{16}\b`), "TOKEN"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\bfp_[0-9a-f]{16}\b`), "FINGERPRINT"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`(leasing/doctor)/[0-9A-Z]{8}`), "$1/RANDOM"},
	{regexp.MustCompile(`backend unavailable: begun but not finished: access denied`), "access denied"}, // the error from Redis on a busy machine
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+/`), "http://ADDRESS/"},
	{regexp.MustCompile(` +\n`), "\n"},
	{regexp.MustCompile(`  +`), "  "},
}

func normalize(text, folder string) string {
	text = strings.ReplaceAll(text, folder, "FOLDER")
	for _, s := range varyingTexts {
		text = s.what.ReplaceAllString(text, s.by)
	}
	return text
}

// compare compares a text with a golden file, or with -update writes the file.
func compare(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test -update writes the golden files")
}

// transcript returns a command line, its exit code and its output.
func (p *testEnv) transcript(args ...string) string {
	code, out, problems := p.run(args...)
	return normalize(fmt.Sprintf("$ leasing %s\n%s%s[%d]\n", strings.Join(args, " "), out, problems, code), p.folder)
}

func commands(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			all = append(append(all, sub), commands(sub)...)
		}
	}
	return all
}

func TestGoldenHelp(t *testing.T) {
	var out bytes.Buffer
	for _, c := range append([]*cobra.Command{rootCommand(&cli.App{})}, commands(rootCommand(&cli.App{}))...) {
		fmt.Fprintf(&out, "$ %s --help\n", c.CommandPath())
		require.Zero(t, execute(append(strings.Fields(c.CommandPath())[1:], "--help"), output.Streams{Out: &out, Err: &out}))
		out.WriteString("\n")
	}
	compare(t, "help", out.String())
}

func TestGoldenOnSQLite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "--owner", "holder", "jobs/a", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	text := ""
	for _, args := range [][]string{
		{"run", "--owner", "me", "jobs/a", "--", "true"},
		{"run", "--owner", "me", "jobs/b", "--", "echo", "hello"},
		{"ls"},
		{"ls", "--all", "jobs/"},
		{"ls", "-o", "json", "--all"},
		{"ls", "nothing/"},
		{"inspect", "jobs/a"},
		{"inspect", "-o", "json", "jobs/a"},
		{"inspect", "jobs/b"},
		{"inspect", "never"},
		{"watch", "--for", "100ms"},
		{"watch", "--for", "100ms", "-o", "json", "jobs/"},
		{"wait", "--for", "50ms", "jobs/a"},
		{"wait", "jobs/b"},
		{"break", "jobs/a"},
		{"break", "--yes", "--if-token", "7", "jobs/a"},
		{"break", "--yes", "--actor", "op", "--reason", "because", "jobs/a"},
		{"break", "--yes", "--immediate", "--actor", "op", "jobs/a"},
		{"break", "--yes", "jobs/b"},
		{"history", "jobs/b"},
		{"history", "-o", "json", "jobs/b"},
		{"elect", "--owner", "me", "--terms", "1", "--on-lost", "echo over $LEASING_EXIT", "jobs/c", "--", "sh", "-c", "echo leads; exit 4"},
		{"doctor"},
		{"doctor", "-o", "json"},
		{"sql", "schema"},
		{"man", "."},
		{"console", "--listen", "127.0.0.1:0", "--for", "50ms"},
		{"__complete", "in"}, // the request of the completion scripts
	} {
		one := p.transcript(args...)
		require.NotContains(t, one, "\n[125]\n")
		text += one + "\n"
	}
	first := p.start("run", "--owner", "first", "jobs/d", "--", "sh", "-c", "echo ready; sleep 1000")
	first.awaitOutput("ready")
	second := p.start("run", "--owner", "second", "--wait", "forever", "jobs/d", "--", "true")
	p.waits("second", "jobs/d")
	text += p.transcript("inspect", "jobs/d") + "\n" + p.transcript("inspect", "-o", "json", "jobs/d")
	first.signal(unix.SIGTERM)
	require.Zero(t, second.code())
	compare(t, "sqlite", text)
	require.FileExists(t, filepath.Join(p.folder, "leasing-run.1"))
}

// waits blocks until an owner is a waiter for a name.
func (p *testEnv) waits(owner, name string) {
	eventually(p.t, func() bool {
		_, out, _ := p.run("inspect", "-o", "json", name)
		return strings.Contains(out, `"waiters":[{"owner":"`+owner)
	}, owner+" waits for "+name)
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, problems := p.run("completion", shell)
		require.Zero(t, code, problems)
		require.Contains(t, out, "leasing")
		if shell == "bash" {
			script := exec.Command("bash", "-ec", out+"\ncomplete -p leasing")
			printed, err := script.CombinedOutput()
			require.NoError(t, err, string(printed))
		}
	}
}

// An error is printed on one line, and the exit code is 1 or 125.
func TestGoldenErrors(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for name, text := range map[string]string{"broken.json": "{", "strange.json": `{"uri": "x"}`, "dead.json": `{"url": "redis://127.0.0.1:1"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o644))
	}
	text := ""
	for _, args := range [][]string{
		{"nonsense"},
		{"ls", "--nonsense"},
		{"ls", "-o", "yaml"},
		{"ls", "a", "b"},
		{"run", "name"},
		{"run", "--ttl", "soon", "name", "--", "true"},
		{"run", "--ttl", "-1s", "name", "--", "true"},
		{"run", "--ttl", "4s", "--grace", "3s", "name", "--", "true"},
		{"run", "--wait", "long", "name", "--", "true"},
		{"run", "--on-loss", "shrug", "name", "--", "true"},
		{"run", "", "--", "true"},
		{"ls", "--url", "oracle://me:secret@host/db"},
		{"ls", "--url", "not a URL, but a secret"},
		{"ls", "--url", "postgres://127.0.0.1:1/db?sslmode=disable"},
		{"ls", "--url", "redis://127.0.0.1:1"},
		{"ls", "--url", "sqlite:///no/such/folder/leases.db"},
		{"run", "--url", "redis://127.0.0.1:1", "name", "--", "true"},
		{"run", "--url", "redis://127.0.0.1:1", "--wait", "200ms", "name", "--", "true"},
		{"doctor", "--url", "redis://127.0.0.1:1"},
		{"history", "--url", "sqlite://" + p.folder + "/other.db?create=true", "name"},
		{"ls", "--url", "sqlite://" + p.folder + "/empty.db"},
		{"ls", "--config", "none.json"},
		{"ls", "--config", "broken.json"},
		{"ls", "--config", "strange.json"},
		{"ls", "--config", "dead.json"},
		{"sql", "schema", "--url", "redis://host"},
		{"man", "/no/such/folder"},
	} {
		one := p.transcript(args...)
		require.Regexp(t, `\n\[(1|125)\]\n$`, one)
		if args[0] != "doctor" {
			require.Equal(t, 3, strings.Count(one, "\n"), one)
		}
		require.NotContains(t, strings.SplitN(one, "\n", 2)[1], "secret")
		text += one + "\n"
	}
	compare(t, "errors", text)
}

// everyCommand has the arguments of each command, without the wrong flags that the test adds.
var everyCommand = map[string][]string{
	"run": {"name", "--", "true"}, "ls": {}, "inspect": {"name"}, "watch": {"--for", "1ms"}, "break": {"--yes", "name"}, "history": {"name"},
	"wait": {"name"}, "elect": {"--terms", "1", "name", "--", "true"}, "doctor": {},
	"console": {"--for", "1ms"}, "sql schema": {}, "man": {"."}, "acquire": {"name"}, "release": {"--id", "0198c0de-0000-7000-8000-000000000000", "name"},
	"bootstrap": {}, "version": {},
}

// On one line, every command reports a wrong flag, a wrong URL, or a server that is down.
func TestEveryCommandFailsInOneLine(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	const badFlag, badURL = "--nonsense", "--url=oracle://me:secret@host/db"
	dead := []string{"--url=redis://127.0.0.1:1", "--url=postgres://127.0.0.1:1/db?sslmode=disable&create=true"}
	for _, c := range commands(rootCommand(&cli.App{})) {
		if !c.Runnable() {
			continue
		}
		name := strings.TrimPrefix(c.CommandPath(), "leasing ")
		args, known := everyCommand[name]
		require.True(t, known, name)
		flags := []string{badFlag}
		if name != "man" && name != "version" {
			flags = append(flags, badURL)
		}
		// The console and elect keep trying until the server answers.
		if !slices.Contains([]string{"man", "version", "sql schema", "console", "elect"}, name) {
			flags = append(flags, dead...)
		}
		for _, flag := range flags {
			line := slices.Concat(strings.Fields(name), []string{flag, "--timeout", "200ms"}, args)
			code, out, problems := p.run(line...)
			if name == "doctor" && flag != badFlag { // doctor prints its findings on standard output
				require.Equal(t, exit.No, code, line)
				require.Contains(t, out, "wrong")
				continue
			}
			require.Equal(t, exit.Failed, code, line)
			require.Empty(t, out, line)
			require.Regexp(t, `\Aleasing: .+\n\z`, problems, line)
			require.NotContains(t, problems, "secret")
		}
	}
}

// refused returns the output of the commands that need the permission to write, each on one line.
func (p *testEnv) refused(url string) (text string) {
	p.t.Helper()
	for _, name := range []string{"run", "elect", "break", "doctor"} {
		line := append([]string{name, "--url", url}, everyCommand[name]...)
		if name == "elect" { // elect tries again for a minute, since the refusal may be temporary
			candidate := p.start(line...)
			eventually(p.t, func() bool { return strings.Contains(candidate.text(candidate.err), "access denied") }, "elect says that it is refused")
			candidate.signal(unix.SIGTERM)
			require.Equal(p.t, 128+int(unix.SIGTERM), candidate.code())
			continue
		}
		one := p.transcript(line...)
		require.Regexp(p.t, `access denied.*\n(.*\n)*\[(1|125)\]\n$`, one)
		if name != "doctor" {
			require.Equal(p.t, 3, strings.Count(one, "\n"), one)
		}
		text += one
	}
	return text
}

// holdLease starts a holder of "name", the name in the commands that refused runs.
func (p *testEnv) holdLease(url string) {
	holder := p.start("run", "--url", url, "name", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
}

func TestGoldenMissingRights_postgres(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t)
	db := openPostgres(t, server.URL)
	_, err := db.Exec("CREATE ROLE weak LOGIN; CREATE ROLE reader LOGIN")
	require.NoError(t, err)
	weak, reader := strings.Replace(server.URL, "postgres@", "weak@", 1), strings.Replace(server.URL, "postgres@", "reader@", 1)
	p := newTestEnv(t)
	text := p.transcript("ls", "--url", weak) + p.transcript("ls", "--url", weak+"&create=true")
	p.holdLease(server.URL + "&create=true")
	_, err = db.Exec("GRANT USAGE ON SCHEMA leasing TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA leasing TO reader")
	require.NoError(t, err)
	text += p.transcript("ls", "--url", weak) + p.transcript("doctor", "--url", weak) + p.refused(reader)
	compare(t, "rights-postgres", strings.ReplaceAll(text, server.Addr(), "SERVER"))
}

func TestGoldenMissingRights_redis(t *testing.T) {
	t.Parallel()
	server := newRedis(t, "--user", "reader", "on", ">secret", "~*", "&*", "+@read", "+@connection", "+time", "--user", "default", "on", "nopass", "~*", "&*", "+@all")
	p := newTestEnv(t)
	p.holdLease("redis://" + server.Addr())
	text := p.transcript("ls", "--url", "redis://reader:wrong@"+server.Addr()) + p.refused("redis://reader:secret@"+server.Addr())
	compare(t, "rights-redis", strings.ReplaceAll(text, server.Addr(), "SERVER"))
}

// The commands may read the file but not change its contents. They run as another user if this user is root.
func TestGoldenMissingRights_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	for folder := p.folder; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755))
	}
	url := "sqlite://" + p.folder + "/leases.db"
	p.holdLease(url + "?create=true")
	require.NoError(t, os.Chmod(p.folder+"/leases.db", 0o444))
	if os.Getuid() == 0 {
		p.credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	compare(t, "rights-sqlite", p.refused(url))
}

// The examples in the help work.
func TestExamplesOnSQLite(t *testing.T) {
	t.Parallel()
	for _, c := range append(commands(rootCommand(&cli.App{})), rootCommand(&cli.App{})) {
		if c.Example == "" || c.Name() == "bootstrap" { // bootstrap needs a Redlock backend
			require.True(t, c.HasSubCommands() || c.Example != "", "%s has no example", c.CommandPath())
			continue
		}
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			require.NoError(t, os.Mkdir(filepath.Join(p.folder, "bin"), 0o755))
			require.NoError(t, os.Symlink("/proc/"+itoa(os.Getpid())+"/exe", filepath.Join(p.folder, "bin", "leasing")))
			if c.Name() != "run" && c.Name() != "wait" {
				holder := p.start("run", "deploy/web", "--", "sh", "-c", "echo ready; sleep 1000")
				holder.awaitOutput("ready")
			}
			script := exec.Command("sh", "-e", "-c", c.Example)
			script.Dir, script.Env = p.folder, append(append(os.Environ(), "LEASING_TEST_AS_COMMAND=1"), p.env()...)
			script.WaitDelay = time.Second
			out, err := script.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}
