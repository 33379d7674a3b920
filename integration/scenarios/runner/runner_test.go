//go:build unix

package runner_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == sample {
		os.Exit(work(os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

// sample is the name of a link to this program, which acts as a sample under
// that name.
const sample = "sample"

// work acts as the worker's argument says, and returns the exit status.
func work(how string) int {
	input := bufio.NewScanner(os.Stdin)
	say := func(level slog.Level, text string) {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Log(context.Background(), level, text)
		input.Scan()
	}
	switch how {
	case "fail":
		say(slog.LevelError, "failed")
		return 1
	case "babble":
		_, _ = os.Stdout.WriteString("this is no report\n")
	case "leave":
		return 3
	case "stay":
		say(slog.LevelInfo, "here")
		for input.Scan() {
			continue
		}
		say(slog.LevelInfo, "goodbye")
	default:
		say(slog.LevelInfo, "before")
		say(slog.LevelInfo, "after")
	}
	return 0
}

// run runs a scenario and checks that it leaves no files behind. goleak finds goroutines that still wait for workers.
func run(ctx context.Context, t *testing.T, control func(context.Context, *runner.Runner) error) error {
	t.Setenv("TMPDIR", t.TempDir())
	folder := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, filepath.Join(folder, sample)))
	err = runner.Run(ctx, folder, runner.Scenario{Name: "test", Sample: sample, TTL: time.Second, Control: control}, "", t.Output())
	left, readErr := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, readErr)
	require.Empty(t, left, "left behind")
	return err
}

// next waits for a report of a kind.
func next(ctx context.Context, t *testing.T, s *runner.Runner, kind string) runner.Report {
	t.Helper()
	r, err := s.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, kind, r.Kind)
	return r
}

func TestWorkerWaitsAlsoWhilePaused(t *testing.T) {
	require.NoError(t, run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
		require.NoError(t, s.Start(ctx, "w1", ""))
		require.Equal(t, "w1", next(ctx, t, s, "before").Worker)
		s.Pause("w1")
		s.Resume("w1")
		s.Continue("w1")
		next(ctx, t, s, "after")
		s.Continue("w1")
		require.Equal(t, 1, s.Running())
		next(ctx, t, s, runner.Exited)
		require.Equal(t, 0, s.Running())
		return nil
	}))
}

func TestKilledWorkerIsNoError(t *testing.T) {
	require.NoError(t, run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
		require.NoError(t, s.Start(ctx, "w1", ""))
		next(ctx, t, s, "before")
		s.Kill("w1")
		require.Equal(t, "is gone: signal: killed", next(ctx, t, s, runner.Exited).Text)
		return nil
	}))
}

func TestStoppedWorkerEndsInOrder(t *testing.T) {
	require.NoError(t, run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
		require.NoError(t, s.Start(ctx, "w1", "stay"))
		next(ctx, t, s, "here")
		s.Stop("w1")
		next(ctx, t, s, "goodbye")
		require.Equal(t, "is gone: exit status 0", next(ctx, t, s, runner.Exited).Text)
		return nil
	}))
}

func TestWorkerThatWaitsEndsWhenItIsStopped(t *testing.T) {
	require.NoError(t, run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
		require.NoError(t, s.Start(ctx, "w1", ""))
		next(ctx, t, s, "before")
		s.StopAll()
		s.Continue("w1")
		next(ctx, t, s, "after")
		require.Equal(t, "is gone: exit status 0", next(ctx, t, s, runner.Exited).Text)
		s.StopAll() // no worker is left
		return nil
	}))
}

func TestWorkerThatFailsEndsTheRun(t *testing.T) {
	for arg, text := range map[string]string{
		"fail": "failed", "leave": "is gone: exit status 3", "babble": `said "this is no report"`,
	} {
		err := run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
			require.NoError(t, s.Start(ctx, "w1", arg))
			_, err := s.Next(ctx)
			return err
		})
		require.ErrorContains(t, err, "w1: "+text)
	}
}

func TestRunThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := run(ctx, t, func(ctx context.Context, s *runner.Runner) error {
		for _, name := range []string{"w1", "w2"} {
			require.NoError(t, s.Start(ctx, name, "stay"))
			next(ctx, t, s, "here")
		}
		s.Pause("w2")
		cancel()
		_, err := s.Next(ctx)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestSendReachesTheParent(t *testing.T) {
	require.NoError(t, run(t.Context(), t, func(ctx context.Context, s *runner.Runner) error {
		reported := make(chan struct{})
		go func() {
			defer close(reported)
			s.Send(ctx, runner.Report{Kind: "mine"})
		}()
		next(ctx, t, s, "mine")
		<-reported
		ended, cancel := context.WithCancel(ctx)
		cancel()
		s.Send(ended, runner.Report{Kind: "nobody reads"})
		return nil
	}))
}
