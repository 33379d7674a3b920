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
	"syscall"
	"time"
)

// The layers, from those that only we have to those that everybody can run.
var layers = []string{"own tests", "conformance", "torture"}

// tests are some of a package's. The zero value is none.
type tests struct{ folder, run, skip string }

// area is the files that the same tests are about.
type area struct {
	prefix string // of the files' paths
	// busy names a server or a disk that one mutant at a time has to itself.
	busy   string
	layers [3]tests
}

// underTorture is this package's: over memory, in virtual time.
var underTorture = tests{folder: "integration/mutants", run: "^TestTorture_memory$"}

// The suite over memory in virtual time, and with a clock that can be moved, is what a change of
// the core or of the kit's rules has to get past, that over files what a change of the kit's records has.
var (
	overMemory = tests{folder: "providers/memory", run: "^TestConformance(InVirtualTime|OnAClockOfItsOwn)$"}
	overFiles  = tests{folder: "providers/file", run: "^TestConformance$"}
	overCosmos = tests{folder: "providers/cosmos", run: "^TestConformanceFake$"}
)

// suites are the tests of a provider's package that run the conformance suite.
const suites = "Conformance"

func own(folder string) tests { return tests{folder: folder, skip: suites} }

// areas are looked through in this order. The own tests of Redis' scripts leave out the
// comparison with their stored texts, which notices any change.
var areas = []area{
	{"abstractions/providerkit/expiry.go", "cosmos", [3]tests{own("abstractions/providerkit"), overCosmos}},
	{"abstractions/providerkit/records.go", "cosmos", [3]tests{own("abstractions/providerkit"), overCosmos}},
	{"abstractions/providerkit/hostclock.go", "file", [3]tests{own("abstractions/providerkit"), overFiles}},
	{"abstractions/providerkit/sweep.go", "file", [3]tests{own("abstractions/providerkit"), overFiles}},
	{"abstractions/providerkit/batch/", "redis", [3]tests{own("abstractions/providerkit/batch"), {folder: "providers/redis", run: "^TestConformanceRedis$"}}},
	{"abstractions/providerkit/", "", [3]tests{own("abstractions/providerkit"), overMemory, underTorture}},
	{"providers/memory/", "", [3]tests{own("providers/memory"), overMemory, underTorture}},
	{"providers/file/", "file", [3]tests{own("providers/file"), overFiles}},
	{"providers/sql/postgres/", "postgres", [3]tests{own("providers/sql"), {folder: "providers/sql", run: "^TestConformance(WithoutHistory)?$/^postgres$"}}},
	{"providers/sql/", "sqlite", [3]tests{own("providers/sql"), {folder: "providers/sql", run: "^TestConformance$/^sqlite$"}}},
	{"providers/redis/internal/redlock/", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/prelude.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/vote.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/quick_vote.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/confirm.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/relock.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/undo.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/admit.lua", "redis", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/", "redis", [3]tests{own("providers/redis"), {folder: "providers/redis", run: "^TestConformanceRedis$"}}},
	{"providers/blob/", "azurite", [3]tests{own("providers/blob"), {folder: "providers/blob", run: "^TestConformanceBlob$"}}},
	{"providers/cosmos/", "cosmos", [3]tests{own("providers/cosmos"), overCosmos}},
	{"providers/s3/", "s3", [3]tests{own("providers/s3"), {folder: "providers/s3", run: "^TestConformance$"}}},
	{"fencing/sqlfence/", "postgres", [3]tests{own("fencing/sqlfence"), {folder: "integration/fencing"}}},
	{"fencing/redisfence/", "redis", [3]tests{own("fencing/redisfence"), {folder: "integration/fencing"}}},
	{"fencing/etagfence/", "", [3]tests{own("fencing/etagfence")}},
	{"fencing/httpfence/", "", [3]tests{own("fencing/httpfence")}},
	{"fencing/", "", [3]tests{own("fencing")}},
	{"recipes/election/", "", [3]tests{own("recipes/election")}},
	{"recipes/multilease/", "", [3]tests{own("recipes/multilease")}},
	{"recipes/semaphore/", "", [3]tests{own("recipes/semaphore")}},
	{"recipes/filelease/", "", [3]tests{own("recipes/filelease")}},
	{"recipes/deadlock/", "", [3]tests{own("recipes/deadlock")}},
	{"recipes/schedule/", "", [3]tests{own("recipes/schedule")}},
	{"handover.go", "", [3]tests{own("."), overMemory}}, // torture hands no lease over
	{"", "", [3]tests{own("."), overMemory, underTorture}},
}

var redlocks = tests{folder: "providers/redis", run: "^TestConformanceRedlock3(Dead|Emptied)?$"}

func (m *mutant) area() *area {
	for i := range areas {
		if strings.HasPrefix(m.edits[0].file, areas[i].prefix) {
			return &areas[i]
		}
	}
	panic("the last area has all files")
}

// result is what one layer says of one mutant.
type result struct {
	outcome string // "noticed", "missed" or "none": the layer has no tests for it
	by      string // the first test that failed
}

var failed = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)

// runTests builds the tests with the overlay and runs them until the first one fails.
func (r *runner) runTests(ctx context.Context, t tests, overlay, folder string) (result, error) {
	if t.folder == "" {
		return result{outcome: "none"}, nil
	}
	program := filepath.Join(folder, "test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+t.folder)
	build.Dir = r.root
	if text, err := build.CombinedOutput(); err != nil {
		return result{}, fmt.Errorf("it does not build: %w\n%s", err, text)
	}
	defer func() { _ = os.Remove(program) }()
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.v", "-test.failfast", "-test.timeout=0", "-test.run="+t.run, "-test.skip="+cmp.Or(t.skip, "^$"))
	command.Dir = filepath.Join(r.root, t.folder)
	command.Env = append(os.Environ(), "LEASING_TEST_SLOW=1") // a server that lost its data is in a suite that is slow
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
	by, ran := "", false
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		ran = ran || strings.HasPrefix(lines.Text(), "=== RUN")
		if found := failed.FindStringSubmatch(lines.Text()); found != nil {
			by = found[1]
			break
		}
		if strings.HasPrefix(lines.Text(), "panic: ") || strings.HasPrefix(lines.Text(), "fatal error: ") {
			by = lines.Text()
			break
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
		return result{"noticed", "the time limit"}, nil
	case !ran:
		return result{}, errors.New("no test was run")
	case err != nil:
		return result{"noticed", err.Error()}, nil
	}
	return result{outcome: "missed"}, nil
}
