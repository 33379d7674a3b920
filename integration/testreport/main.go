// Command testreport reads what `go test -json` wrote and says what ran against
// which backend. `make test` ends with it.
//
//	testreport [-steps FILE] [-require memory,postgres] EVENTS.json
//
// A test counts for the backend that its own name, or else its package, names
// (see backends). The last line reads "N passed, N failed, N skipped"; besides
// tests it counts the steps of the file, one "name<TAB>ok|failed<TAB>seconds"
// per line, such as the linters and the release check. The exit code is 1 when
// anything failed, when a test never ended, when a required backend had no test
// that passed, or when nothing ran at all.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	steps := flag.String("steps", "", "file of steps that ran beside the tests")
	required := flag.String("require", "", "comma-separated backends that must have run")
	flag.Parse()
	ok, err := run(context.Background(), *steps, *required, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, stepsFile, required string, files []string) (bool, error) {
	if len(files) != 1 {
		return false, fmt.Errorf("want one file of go test -json output, got %d", len(files))
	}
	modules, err := modulePaths(ctx)
	if err != nil {
		return false, err
	}
	events, err := os.ReadFile(files[0])
	if err != nil {
		return false, err
	}
	rep := newReport(modules)
	if err := rep.readEvents(bytes.NewReader(events)); err != nil {
		return false, fmt.Errorf("%s: %w", files[0], err)
	}
	if stepsFile != "" {
		text, err := os.ReadFile(stepsFile)
		if err != nil {
			return false, err
		}
		if err := rep.readSteps(string(text)); err != nil {
			return false, fmt.Errorf("%s: %w", stepsFile, err)
		}
	}
	rep.require(strings.FieldsFunc(required, func(r rune) bool { return r == ',' }))
	return rep.print(os.Stdout)
}

// modulePaths are the modules of the workspace around the working directory.
func modulePaths(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	return strings.Fields(string(out)), nil
}
