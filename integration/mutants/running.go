package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// result is the verdict of one layer on one mutant.
type result struct {
	outcome string // "noticed", "missed", "undecided", or "none": the layer has no tests for it
	by      string // the first test that failed
}

var (
	failed   = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	testLine = regexp.MustCompile(`^=== (?:RUN|NAME|CONT)\s+(\S+)`)
)

// timeLimit replaces the name of a test if the tests did not end in time.
const timeLimit = "the time limit"

// program is the test program of a package.
type program struct {
	tests
	file, folder string
}

// build builds the test program of a package, with an overlay unless overlay is "".
func (r *runner) build(ctx context.Context, t tests, overlay, into string) (program, error) {
	p := program{t, filepath.Join(into, "test"), filepath.Join(r.root, t.folder)}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", p.file, "./"+t.folder)
	build.Dir = r.root
	if text, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("it does not build: %w\n%s", err, text)
	}
	return p, nil
}

// run runs tests until the first one fails.
func (p program) run(ctx context.Context, limit time.Duration) (result, error) {
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, p.file, "-test.v", "-test.failfast", "-test.timeout=0", "-test.run="+p.tests.run, "-test.skip="+cmp.Or(p.skip, "^$"))
	command.Dir = p.folder
	if command.Env = os.Environ(); p.slow {
		command.Env = append(command.Env, "LEASING_TEST_SLOW=1")
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	output, err := command.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return result{}, err
	}
	by, at, ran := "", "", false
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for by == "" && lines.Scan() {
		line := lines.Text()
		ran = ran || strings.HasPrefix(line, "=== RUN")
		if found := testLine.FindStringSubmatch(line); found != nil {
			at = found[1]
		}
		switch found := failed.FindStringSubmatch(line); {
		case found != nil:
			by = found[1]
		case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
			by = line
		case p.tests.run != "" && strings.Contains(line, "Error Trace:"): // a failed check of a suite, which reports the failure only at its end
			by = at
		}
	}
	late := ctx.Err() != nil
	if interrupted.Err() != nil {
		return result{}, interrupted.Err()
	}
	if by != "" {
		cancel() // the rest of the tests would add nothing
	}
	err = command.Wait()
	switch {
	case by != "":
		return result{"noticed", by}, nil
	case late:
		return result{"noticed", timeLimit}, nil
	case !ran:
		return result{}, errors.New("no test was run")
	case err != nil:
		return result{"noticed", err.Error()}, nil
	}
	return result{outcome: "missed"}, nil
}

// baseline returns the duration of tests on the unchanged code, where they have to pass.
func (r *runner) baseline(ctx context.Context, t tests) (time.Duration, error) {
	t.then = nil
	r.mu.Lock()
	once := r.unchanged[t]
	if once == nil {
		once = sync.OnceValues(func() (time.Duration, error) { return r.pass(ctx, t) })
		r.unchanged[t] = once
	}
	r.mu.Unlock()
	return once()
}

// pass runs tests, and repeats them after a failure: a busy machine may fail them once, but not
// twice.
func (r *runner) pass(ctx context.Context, t tests) (took time.Duration, err error) {
	folder, err := os.MkdirTemp("", "leasing-mutant.")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	p, err := r.build(ctx, t, "", folder)
	if err != nil {
		return 0, err
	}
	var by string
	for range 2 {
		began := time.Now()
		found, err := p.run(ctx, 4*r.limit)
		took = time.Since(began)
		if err != nil || found.outcome == "missed" {
			fmt.Printf("unchanged   passes   %5.1fs  %s %s\n", took.Seconds(), t.folder, t.run)
			return took, err
		}
		by = found.by
	}
	return took, fmt.Errorf("the tests of %s fail on the code as it is: %s", t.folder, by)
}

// runLayer runs the tests of one layer on one mutant. Tests with a real server have to notice the mutant twice, the
// second time alone. The time limit is much longer than the tests take without the mutant.
func (r *runner) runLayer(ctx context.Context, t tests, busy bool, overlay, folder string) (result, error) {
	if t.folder == "" {
		return result{outcome: "none"}, nil
	}
	usual, err := r.baseline(ctx, t)
	if err != nil {
		return result{}, err
	}
	limit := max(r.limit, 5*usual)
	p, err := r.build(ctx, t, overlay, folder)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.Remove(p.file) }()
	found, err := p.run(ctx, limit)
	if err != nil || !busy || found.outcome == "missed" {
		return found, err
	}
	if name, _, _ := strings.Cut(found.by, "/"); t.run == "" && strings.HasPrefix(name, "Test") {
		alone := p
		alone.tests.run, alone.skip = "^"+name+"$", ""
		if again, err := alone.run(ctx, limit); err != nil || again.outcome == "noticed" {
			return found, err
		}
	}
	return p.run(ctx, limit)
}
