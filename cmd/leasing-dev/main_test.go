//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is also the command, and the command's worker processes.
func TestMain(m *testing.M) {
	if os.Getenv("LEASING_TEST_AS_COMMAND") != "" {
		main()
	}
	_ = os.Unsetenv("LEASING_URL") // a setting of the shell that runs the tests
	os.Exit(m.Run())
}

// testEnv is a folder with an SQLite file, in which commands run.
type testEnv struct {
	t      *testing.T
	folder string
}

// varyingNames matches the names that differ from run to run.
var varyingNames = regexp.MustCompile(`"(leasing/bench|torture)/[^"]+"`)

func newTestEnv(t *testing.T) testEnv { return testEnv{t, t.TempDir()} }

func (p testEnv) command(args ...string) *exec.Cmd {
	p.t.Helper()
	program, err := os.Executable()
	require.NoError(p.t, err)
	cmd := exec.CommandContext(p.t.Context(), program, args...)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "LEASING_TEST_AS_COMMAND=1", "LEASING_URL=sqlite://"+filepath.Join(p.folder, "leases.db")+"?create=true")
	cmd.WaitDelay = time.Minute
	return cmd
}

// run runs the command to its end.
func (p testEnv) run(args ...string) (code int, out, problems string) {
	p.t.Helper()
	cmd := p.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code reports a failure
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestBenchMeasures_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	code, out, problems := p.run("bench", "--for", "300ms", "--clients", "2")
	require.Zero(t, code, problems)
	require.Equal(t, 4, strings.Count(out, "\n"), out)
	require.Regexp(t, `^WHAT +CLIENTS +CYCLES +PER SECOND +MEDIAN +99 %\none name each +1 +\d+ +\d+ +[0-9.µms]+ +[0-9.µms]+\n`, out)
	code, out, problems = p.run("bench", "--for", "300ms", "--clients", "2", "-o", "json")
	require.Zero(t, code, problems)
	for line := range strings.Lines(out) {
		var m measurement
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		require.Positive(t, m.Cycles)
		require.Positive(t, m.Median)
	}
}

func TestTortureWithProcesses_sqlite(t *testing.T) {
	t.Parallel()
	code, out, problems := newTestEnv(t).run("torture", "--plan", "none", "--for", "1s", "--processes", "--workers", "2", "--names", "1", "--patience", "30s")
	require.Zero(t, code, out+problems)
	require.Contains(t, out, "no violation")
}

// The program reports each failure once, in one line, in terms of its flags.
func TestFailuresAreOneLine(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "strange.json"), []byte(`{"uri": "x"}`), 0o600))
	for line, want := range map[string]string{
		"nonsense":          `unknown command "nonsense" for "leasing-dev"`,
		"bench --nonsense":  `unknown flag: --nonsense; see "leasing-dev bench --help"`,
		"bench -o yaml":     `--output "yaml": want table or json`,
		"bench --clients 0": "--for 3s --clients 0: want more than 0",
		"bench --timeout 0": "--timeout 0s: want more than 0",
		"bench --url redis://127.0.0.1:1 --timeout 100ms --for 100ms": `acquire "leasing/bench/NAME" (redis): backend unavailable: dial tcp 127.0.0.1:1: connect: connection refused`,
		"torture --url oracle://me:secret@host":                       `open a client: invalid URL scheme "oracle": want one that begins with postgres://, `,
		"torture --plan mild":                                         `--plan: invalid plan "mild": want one of flaky-network, `,
		"torture --plan strange.json":                                 `--plan strange.json: invalid Plan "JSON": want fields that exist: unknown field "uri"`,
		"torture --workers -1":                                        "invalid --workers -1: want 1 to 9999, or 0 for the default",
		"torture --ttl 1ms":                                           "new manager (sqlite): invalid --ttl 1ms: want at least ",
		"torture --for 1h --html /no/such/folder/run.html":            "open /no/such/folder/run.html: no such file or directory",
		"torture --verify none.json":                                  "open none.json: no such file or directory",
		"torture --verify strange.json":                               `torture: read a history: it is no "leasing torture history 1"`,
		"torture --url redis://127.0.0.1:1 --for 1s":                  `before anything has gone wrong: acquire "torture/NAME" (redis): backend unavailable: dial tcp 127.0.0.1:1: connect: connection refused`,
	} {
		code, out, problems := p.run(strings.Fields(line)...)
		require.Equal(t, exitFailed, code, line)
		require.Empty(t, out, line)
		require.Equal(t, 1, strings.Count(problems, "\n"), problems)
		require.NotContains(t, problems, "secret")
		require.True(t, strings.HasPrefix(varyingNames.ReplaceAllString(problems, `"$1/NAME"`), "leasing-dev: "+want), "%s: %s", line, problems)
	}
	cmd := p.command("bench")
	cmd.Env = append(os.Environ(), "LEASING_TEST_AS_COMMAND=1")
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "leasing-dev: no backend: name one with --url or LEASING_URL\n", string(text))
}

// The help's examples work.
func TestExamples_sqlite(t *testing.T) {
	t.Parallel()
	for _, c := range (&app{}).root().Commands() {
		if c.Example == "" {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			p := newTestEnv(t)
			program := p.command("help")
			require.NoError(t, os.Symlink(program.Path, filepath.Join(p.folder, "leasing-dev")))
			script := exec.CommandContext(t.Context(), "sh", "-e", "-c", c.Example)
			script.Dir, script.Env = p.folder, append(program.Env, "PATH="+p.folder+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := script.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}
