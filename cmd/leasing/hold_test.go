//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// A lease from the command acquire outlives the command, and is released by its ID.
func TestAcquireAndReleaseOnSQLite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	code, out, problems := p.run("acquire", "--ttl", "forever", "--reason", "freeze for 1.4", "deploy/web")
	require.Zero(t, code, problems)
	id := strings.TrimSpace(out)
	code, _, problems = p.run("run", "deploy/web", "--", "true")
	require.Equal(t, exit.Busy, code)
	require.NotContains(t, problems, id)
	code, _, _ = p.run("acquire", "--wait", "50ms", "deploy/web")
	require.Equal(t, exit.Busy, code)
	_, out, _ = p.run("inspect", "deploy/web")
	require.Contains(t, out, "freeze for 1.4")
	require.NotContains(t, out, id)

	code, _, problems = p.run("release", "--id", "0198c0de-0000-7000-8000-000000000000", "deploy/web")
	require.Equal(t, exit.No, code)
	require.Contains(t, problems, "no lease with this ID")
	code, _, _ = p.run("run", "deploy/web", "--", "true")
	require.Equal(t, exit.Busy, code, "another ID ends nothing")
	code, _, problems = p.run("release", "--id", id, "deploy/web")
	require.Zero(t, code, problems)
	code, _, problems = p.run("run", "deploy/web", "--", "true")
	require.Zero(t, code, problems)
	code, _, _ = p.run("release", "--id", id, "deploy/web")
	require.Equal(t, exit.No, code, "it was released already")

	_, out, _ = p.run("acquire", "-o", "json", "--ttl", "1m", "deploy/web")
	var shown struct {
		Name, ID string
		Token    int64
		TTL      float64 `json:"ttl_s"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	require.Equal(t, "deploy/web", shown.Name)
	require.Equal(t, 60.0, shown.TTL)
	require.Positive(t, shown.Token)
	for _, wrong := range [][]string{{"acquire", "--ttl", "0s", "n"}, {"acquire", "--ttl", "soon", "n"}, {"acquire", "--wait", "-1s", "n"}, {"release", "n"}} {
		code, _, problems = p.run(wrong...)
		require.Equal(t, exit.Failed, code, wrong)
		require.Contains(t, problems, "want", wrong)
	}
}

// T251: an acquire that a signal ends, or that can't print the ID, leaves no lease behind.
func TestTrap_T251_AnAcquireThatEndsEarlyLeavesNoLease_sqlite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "deploy/web", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	waiting := p.start("acquire", "--wait", "forever", "deploy/web")
	eventually(t, func() bool { return catchesSignal(waiting.Process.Pid, unix.SIGUSR1) }, "acquire waits")
	waiting.signal(unix.SIGUSR1)
	require.Equal(t, exit.Signal+int(unix.SIGUSR1), waiting.code())
	holder.signal(unix.SIGTERM)
	holder.code()

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, full.Close()) }()
	cmd := asCommand(t.Context(), p.env(), "acquire", "deploy/web")
	cmd.Stdout = full
	require.Error(t, cmd.Run())
	require.Equal(t, exit.Failed, cmd.ProcessState.ExitCode())
	code, _, problems := p.run("run", "deploy/web", "--", "true")
	require.Zero(t, code, problems)
}

func TestBootstrapOfARedlock(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	url := "redis://"
	for i := range 3 {
		url += map[bool]string{true: ","}[i > 0] + newRedis(t).Addr()
	}
	url += "/0?mode=redlock"
	code, _, problems := p.run("run", "--url", url, "name", "--", "true")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, problems, `"leasing bootstrap" lets new servers vote at once`)
	code, out, problems := p.run("bootstrap", "--url", url)
	require.Zero(t, code, problems)
	require.Equal(t, "all servers vote\n", out)
	code, _, problems = p.run("run", "--url", url, "name", "--", "true")
	require.Zero(t, code, problems)

	code, _, problems = p.run("bootstrap") // on SQLite
	require.Equal(t, exit.Failed, code)
	require.Contains(t, problems, "mode=redlock")
}

func TestVersionAndManual(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	code, out, _ := p.run("version")
	require.Zero(t, code)
	require.Regexp(t, `\Aleasing \S+ \S+ go1\S+ linux/\S+\nbackends: .*redis://`, out)
	code, _, problems := p.run("man", p.folder)
	require.Zero(t, code, problems)
	pages, err := filepath.Glob(filepath.Join(p.folder, "*.1"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.NotContains(t, string(text), "cobra", page)
		for _, section := range []string{"EXIT STATUS", "ENVIRONMENT", "FILES"} {
			require.Contains(t, string(text), ".SH "+section, page)
		}
	}
}
