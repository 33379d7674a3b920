package torture

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/chaos/torture/internal/report"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
)

// Options configure a run. Only Open is required. README.md has a table of the fields.
type Options = run.Options

// Disturbance is one action of Options.Disturb.
type Disturbance = run.Disturbance

// Progress is the state of a run in progress.
type Progress = history.Progress

// Report is the result of a run. Its Options are those of the run, with defaults filled in, including the seed. OK, Err and
// Verdict report whether the promises were kept, String and WriteHTML format the result, and WriteHistory saves the history for
// Verify.
type Report = report.Report

// Violation is a broken promise.
type Violation = history.Violation

// Check names one of the checks.
type Check = history.Check

// Run lets workers compete for Options.For, ends all faults, and checks the recorded history.
// It returns an error if the run failed, or if ctx ended during the run; violations are in the
// report. It takes longer than For, because it waits until abandoned leases have run out, and
// then checks the history.
func Run(ctx context.Context, options Options) (*Report, error) {
	record, err := run.Run(ctx, options)
	if err != nil {
		return nil, err
	}
	return report.Of(record), nil
}

// Test runs Run in a test. It logs the report, and fails the test if Report.Err is not nil. With the flag -artifacts of go test
// the history of a failing run is kept, for Verify and for "leasing-dev torture --verify".
//
//	torture.Test(t, torture.Options{Open: open, Plan: chaos.FlakyNetwork(chaos.FlakyNetworkOptions{})})
func Test(t testing.TB, options Options) *Report {
	t.Helper()
	if options.Command == "" {
		options.Command = "go test -run " + t.Name()
	}
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err = report.Err(); err != nil {
		t.Error(err)
		if file, err := os.Create(filepath.Join(t.ArtifactDir(), "history.json")); err != nil {
			t.Error(err)
		} else if err := errors.Join(report.WriteHistory(file), file.Close()); err != nil {
			t.Error(err)
		}
	} else {
		t.Logf("\n%s", report)
	}
	return report
}

// Verify checks a history that Report.WriteHistory has written.
func Verify(from io.Reader) (*Report, error) {
	record, err := run.ReadRecord(from)
	if err != nil {
		return nil, err
	}
	return report.Of(record), nil
}

// Share returns an Options.Open for a provider that is its own backend, such as the provider of
// package memlease. All workers get this provider, and no worker closes the provider.
func Share(provider leasing.Provider) func(context.Context) (leasing.Provider, error) {
	return run.Share(provider)
}

// WorkerMain must be the first call in the main function, or in TestMain, of a program that
// Options.Process starts. In a worker process it runs the worker until the end of the run, and
// then exits. In other processes it returns at once. open opens the backend's client, like
// Options.Open of the run.
func WorkerMain(open func(ctx context.Context) (leasing.Provider, error)) { run.WorkerMain(open) }
