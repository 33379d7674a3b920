package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestMain(m *testing.M) {
	torture.WorkerMain(openFromEnvironment)
	goleak.VerifyTestMain(m)
}

// play runs the command line and returns what it has printed.
func play(t *testing.T, prepare preparation, args ...string) (code int, out, complaints string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), args, &stdout, &stderr, prepare)
	return code, stdout.String(), stderr.String()
}

func TestTemporaryFile_sqlite(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	code, out, complaints := play(t, setUp, "-plan", "lost-replies", "-for", "3s", "-seed", "7", "-workers", "4", "-names", "2")
	require.Zero(t, code, "%s%s", out, complaints)
	require.Contains(t, out, "sqlite")
	require.Contains(t, out, "lost-replies, seed 7")
	require.Contains(t, out, "no violation")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestProcesses_sqlite(t *testing.T) {
	code, out, complaints := play(t, setUp, "-processes", "-plan", "none", "-for", "8s", "-seed", "7", "-workers", "4", "-names", "2")
	require.Zero(t, code, "%s%s", out, complaints)
	require.Contains(t, out, "disturbances")
	require.Contains(t, out, "no violation")
}

func TestAllPlansAndFiles_memory(t *testing.T) {
	folder := t.TempDir()
	html := filepath.Join(folder, "run.html")
	code, out, complaints := play(t, setUp, "-provider", "memory", "-plan", "all", "-for", "4s", "-ttl", "300ms", "-html", html,
		"-history", filepath.Join(folder, "run.json"), "-intensity", "2", "-operations", "5000")
	require.Zero(t, code, "%s%s", out, complaints)
	for _, plan := range chaos.Names() {
		page, err := os.ReadFile(filepath.Join(folder, "run-"+plan+".html"))
		require.NoError(t, err)
		require.Contains(t, string(page), "memory under "+plan)
		code, again, complaints := play(t, setUp, "-verify", filepath.Join(folder, "run-"+plan+".json"))
		require.Zero(t, code, complaints)
		require.Contains(t, out, again, "what was recorded is checked as it was")
	}
	require.Contains(t, out, "9 plans on memory: no violation")
}

func TestPlanFromAFile_memory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.json")
	plan, err := json.Marshal(chaos.LostReplies(chaos.LostRepliesOptions{Probability: 0.5}))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, plan, 0o600))
	code, out, complaints := play(t, setUp, "-provider", "memory", "-plan", file, "-for", "1s", "-ttl", "300ms")
	require.Zero(t, code, "%s%s", out, complaints)
	require.Contains(t, out, "reply lost")
}

// A promise that was broken is exit code 1, and the command that shows it again.
func TestViolation_memory(t *testing.T) {
	code, out, _ := play(t, func(context.Context, string) (*backend, error) {
		for _, defect := range broken.All() {
			if defect.Trap == "T18" {
				provider := defect.Wrap(memlease.New(memlease.Options{}))
				return &backend{torture.Options{Open: torture.Share(provider)}, func() error { return nil }}, nil
			}
		}
		return nil, os.ErrNotExist
	}, "-provider", "redis://:secret@host/0", "-plan", "none", "-for", "3s", "-seed", "7", "-ttl", "400ms")
	require.Equal(t, 1, code)
	require.Contains(t, out, "overlap")
	require.Contains(t, out, "again: go run -C samples ./chaos -provider 'redis://...' -plan none -for 3s -seed 7 -workers 8 -names 4 -ttl 400ms")
	require.NotContains(t, out, "secret")
}

func TestCommandLinesThatCannotWork(t *testing.T) {
	for want, args := range map[string][]string{
		"no-such-plan":               {"-plan", "no-such-plan"},
		`"more"`:                     {"more"},
		"not defined":                {"-nonsense"},
		`invalid URL scheme "mysql"`: {"-provider", "mysql://me:geheim@host/db"},
		"memory, sqlite, or":         {"-provider", "nonsense"},
		`URL scheme ""`:              {"-provider", "DefaultEndpointsProtocol=http;AccountKey=geheim;BlobEndpoint=http://127.0.0.1:1/x"},
		"before anything has gone":   {"-provider", "redis://127.0.0.1:1/0", "-ttl", "100ms"},
		"Options.TTL":                {"-provider", "memory", "-ttl", "1ms"},
		"can't be reached":           {"-provider", "memory", "-processes"},
		"Options.Workers -1":         {"-provider", "memory", "-workers", "-1"},
		"run.html: no such file or":  {"-provider", "memory", "-for", "1h", "-html", filepath.Join(t.TempDir(), "missing", "run.html")},
	} {
		code, _, complaints := play(t, setUp, args...)
		require.Equal(t, 2, code, want)
		require.Contains(t, complaints, want)
		require.NotContains(t, complaints, "geheim")
	}
	code, out, _ := play(t, setUp, "-plan", "help")
	require.Zero(t, code)
	require.Contains(t, out, "flaky-network")
}

func TestInterruptedRunIsNoVerdict_memory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var out, complaints strings.Builder
	require.Equal(t, 2, run(ctx, []string{"-provider", "memory", "-for", "1h"}, &out, &complaints, setUp))
	require.Contains(t, complaints.String(), "deadline exceeded")
}
