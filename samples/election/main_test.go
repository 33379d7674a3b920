//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The demo starts this program again for its workers; in a test that is the
// test's program.
func TestMain(m *testing.M) {
	if config := os.Getenv(workerVariable); config != "" {
		os.Exit(workerMain(config))
	}
	goleak.VerifyTestMain(m)
}

func TestDemoOnSQLite(t *testing.T) {
	t.Parallel()
	if err := play(t, "sqlite"); err != nil {
		t.Fatal(err)
	}
}

func TestDemoOnPostgres(t *testing.T) {
	t.Parallel()
	if err := play(t, "postgres"); err != nil {
		t.Fatal(err)
	}
}

func TestDemoRefusesOtherBackends(t *testing.T) {
	if err := play(t, "etcd"); err == nil || !strings.Contains(err.Error(), `"etcd"`) {
		t.Fatalf("got %v", err)
	}
}

func TestDemoThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "leads") {
			cancel()
		}
		return len(line), nil
	})
	if err := demo(ctx, "sqlite", out); err == nil { // and goleak looks for readers of workers
		t.Fatal("an interrupted demo has succeeded")
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

func play(t *testing.T, backend string) error {
	ctx, cancel := context.WithTimeout(t.Context(), showtime)
	defer cancel()
	return demo(ctx, backend, t.Output())
}
