//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Each plan has a report, a page, and a history that --verify reads back. Its verdict is not checked here but in
// package torture, because this machine may be very busy.
func TestTortureUnderEveryPlanOnSQLite(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newTestEnv(t)
	code, out, problems := p.run("torture", "--plan", "all", "--for", "3s", "--workers", "4", "--names", "2", "--ttl", "500ms", "--operations", "5000", "--patience", "30s",
		"--seed", "7", "--html", "run.html", "--history", "run.json")
	require.Equal(t, strings.Contains(out, "FAILED"), code == exitNo, out+problems)
	require.Contains(t, []int{0, exitNo}, code, problems)
	for i, plan := range chaos.Names() {
		require.Contains(t, out, fmt.Sprintf("%s, seed %d", plan, 7+i), "what is left to chance is not the same under each")
		page, err := os.ReadFile(filepath.Join(p.folder, "run-"+plan+".html"))
		require.NoError(t, err)
		require.Contains(t, string(page), "sqlite under "+plan)
		_, again, problems := p.run("torture", "--verify", "run-"+plan+".json")
		require.Contains(t, again, "verdict", problems)
		require.Contains(t, out, again)
	}
}

func TestTortureUnderAPlanInAFileOnSQLite(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	plan, err := json.Marshal(chaos.LostReplies(chaos.LostRepliesOptions{Probability: 0.5}))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "mine.json"), plan, 0o600))
	code, out, problems := p.run("torture", "-o", "json", "--plan", "mine.json", "--for", "1s", "--seed", "7", "--patience", "30s")
	var verdict map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &verdict), problems)
	require.Equal(t, map[bool]int{true: 0, false: exitNo}[verdict["verdict"] == "no violation"], code, out+problems)
	require.Contains(t, verdict["again"], "leasing-dev torture --plan mine.json --for 1s --seed 7 ")
}

// A run that finds a broken promise exits with code 1, and its report has the command line that repeats the run.
func TestTortureFindsTwoHolders(t *testing.T) {
	history := filepath.Join(t.TempDir(), "run.json")
	synctest.Test(t, func(t *testing.T) {
		at := slices.IndexFunc(broken.All(), func(d broken.Defect) bool { return d.Trap == "T18" })
		f := &tortureFlags{plan: "none", history: history}
		f.For, f.Seed, f.Names = 10*time.Second, 7, 1
		f.Open, f.Command = torture.Share(broken.All()[at].Wrap(memlease.New(memlease.Options{}))), f.repeatCommand()
		report, err := torture.Run(t.Context(), f.Options)
		require.NoError(t, err)
		require.NoError(t, f.write(f.Plan, report.WriteHTML, report.WriteHistory))
	})
	code, out, problems := newTestEnv(t).run("torture", "--verify", history)
	require.Equal(t, exitNo, code, problems)
	require.Contains(t, out, "overlap")
	require.Contains(t, out, "again: leasing-dev torture --plan none --for 10s --seed 7 ")
	require.Empty(t, problems)
}

// A run that was interrupted has no verdict.
func TestTortureInterruptedOnSQLite(t *testing.T) {
	t.Parallel()
	cmd := newTestEnv(t).command("torture", "--for", "1h")
	var out bytes.Buffer
	cmd.Stdout = &out
	progress, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	line, err := bufio.NewReader(progress).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^leasing-dev: flaky-network: .* requests\n`, line)
	require.NoError(t, cmd.Process.Signal(unix.SIGINT))
	_ = cmd.Wait() // the exit code reports a failure
	require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
	require.Empty(t, out.String())
}
