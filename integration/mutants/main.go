// Command mutants damages the code on purpose, one named change at a time, and reports
// which layer of the tests notices the change: the packages' own tests, the
// conformance suite, or torture. The changes are in mutants.txt, and their results are
// in results.tsv and docs/mutants.md.
//
//	go run ./mutants                        # all of them, which takes an hour or two
//	go run ./mutants -run 'trust: '         # those whose name matches
//	go run ./mutants -files 'engine/renewal.go'   # those that change a matching file
//	go run ./mutants -layer conformance     # one layer
//	go run ./mutants -resume                # only those without a result
//	go run ./mutants -report                # runs no tests, only writes docs/mutants.md
//	go run ./mutants -sample 120 -seed HASH # mutants drawn at random: see sample.go
//
// The servers that the tests need must run, as for `make test`. `make mutants` starts the servers. Each
// test first runs on the unchanged code, and counts only if it passes that run. The exit code is 1 if a
// mutant that breaks a promise survives all layers. A drawn mutant may survive.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs mutants.
type runner struct {
	root  string
	limit time.Duration // the minimum time limit for the tests of one layer

	mu        sync.Mutex
	busy      map[string]*sync.Mutex
	unchanged map[tests]func() (time.Duration, error)
	file      resultFile
	errs      []error
}

// settings are the flags.
type settings struct {
	only, files, layer, root, results, seed string
	parallel, sample                        int
	limit                                   time.Duration
	resume, report                          bool
}

// The files of results, relative to the folder of the command's module.
const (
	listResults   = "mutants/results.tsv"
	sampleResults = "mutants/sample.tsv"
)

func main() {
	var s settings
	flag.StringVar(&s.only, "run", "", "a `regexp` of the mutants' names, which begin with the class")
	flag.StringVar(&s.files, "files", "", "a `regexp` of the changed files' paths, from the root")
	flag.StringVar(&s.layer, "layer", "", "one of: "+strings.Join(layers, ", "))
	flag.IntVar(&s.parallel, "parallel", 2, "how many mutants at a time")
	flag.DurationVar(&s.limit, "limit", 5*time.Minute, "for the tests of one layer; a mutant that takes longer, and five times as long as the code as it is, is noticed, or undecided in a sample")
	flag.BoolVar(&s.resume, "resume", false, "keep the results that there are of the same commit")
	flag.BoolVar(&s.report, "report", false, "only write docs/mutants.md")
	flag.IntVar(&s.sample, "sample", 0, "draw so many `mutants`, of the files that -files matches, and run these")
	flag.StringVar(&s.seed, "seed", "", "the `hash` of a commit, which decides what -sample draws")
	flag.StringVar(&s.root, "root", "..", "the repository")
	flag.StringVar(&s.results, "results", "", "where results are kept (default "+listResults+", or "+sampleResults+" of a sample)")
	flag.Parse()
	survivors, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	for _, name := range survivors {
		fmt.Println("survives:", name)
	}
	if len(survivors) > 0 && s.sample == 0 {
		os.Exit(1)
	}
}

func run(s settings) (survivors []string, err error) {
	chosen, err := regexp.Compile(s.only)
	if err != nil {
		return nil, err
	}
	changing, err := regexp.Compile(s.files)
	if err != nil {
		return nil, err
	}
	if s.sample > 0 && len(s.seed) != 40 {
		return nil, errors.New("-sample wants -seed, the hash of a commit, in full")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &runner{limit: s.limit, busy: map[string]*sync.Mutex{}, unchanged: map[tests]func() (time.Duration, error){}}
	if r.root, err = filepath.Abs(s.root); err != nil {
		return nil, err
	}
	if s.report {
		return nil, writePage(r.root)
	}
	list, err := parse(listText)
	if err != nil {
		return nil, err
	}
	commit, err := codeCommit(ctx, r.root)
	if err != nil {
		return nil, err
	}
	head, file := "commit "+commit, listResults
	if s.sample > 0 {
		head, file = fmt.Sprintf("commit %s, %d mutants drawn by seed %s", commit, s.sample, s.seed), sampleResults
		if s.files != "" {
			head += " of the files `" + s.files + "`"
		}
		if list, err = draw(ctx, r.root, s.seed, s.sample, changing); err != nil {
			return nil, err
		}
	}
	if r.file, err = readResults(cmp.Or(s.results, file)); err != nil {
		return nil, err
	}
	r.file.reset(head, list, s.sample > 0)
	if err := r.file.write(); err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, s.parallel)
	for _, m := range list {
		if !chosen.MatchString(m.name) || !changing.MatchString(m.edits[0].file) {
			continue
		}
		all.Go(func() {
			defer r.lockServer(m.area().busy)()
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := r.runMutant(ctx, m, s.layer, s.resume); err != nil && ctx.Err() == nil {
				r.addError(fmt.Errorf("%s: %w", m.name, err))
			}
		})
	}
	all.Wait()
	for _, err := range r.errs {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err := writePage(r.root); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errors.New("interrupted: -resume goes on")
	}
	if len(r.errs) > 0 {
		return nil, fmt.Errorf("%d mutants were not run", len(r.errs))
	}
	return r.file.survivors(list), nil
}

// writePage writes docs/mutants.md from the results that are kept in their usual place.
func writePage(root string) error {
	list, err := parse(listText)
	if err != nil {
		return err
	}
	chosen, err := readResults(filepath.Join(root, "integration", listResults))
	if err != nil {
		return err
	}
	drawn, err := readResults(filepath.Join(root, "integration", sampleResults))
	if err != nil {
		return err
	}
	reasons, err := equivalents(equivalentsText)
	if err != nil {
		return err
	}
	text := page(list, chosen)
	if drawn.head != "" {
		sample, err := samplePage(drawn.head, drawn.results, reasons)
		if err != nil {
			return err
		}
		text += sample
	}
	return os.WriteFile(filepath.Join(root, "docs", "mutants.md"), []byte(text), 0o644)
}

func (r *runner) addError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// lockServer waits until no other call uses the same server, and returns the function that frees the server.
func (r *runner) lockServer(server string) (end func()) {
	if server == "" {
		return func() {}
	}
	r.mu.Lock()
	one := r.busy[server]
	if one == nil {
		one = new(sync.Mutex)
		r.busy[server] = one
	}
	r.mu.Unlock()
	one.Lock()
	return one.Unlock
}

// runMutant runs the requested layers, and stores their results.
func (r *runner) runMutant(ctx context.Context, m *mutant, only string, resume bool) error {
	folder, err := os.MkdirTemp("", "leasing-mutant.")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	overlay, err := m.overlay(r.root, folder)
	if err != nil {
		return err
	}
	a := m.area()
	if m.asked == nil {
		a.layers[0] = withPackage(r.root, m.edits[0].file, a.layers[0])
	}
	for i, t := range a.layers {
		if only != "" && only != layers[i] || resume && r.result(m, i).outcome != "" {
			continue
		}
		began := time.Now()
		found, err := r.runLayer(ctx, t, a.busy != "", overlay, folder)
		for err == nil && found.outcome == "missed" && t.then != nil {
			t = *t.then
			found, err = r.runLayer(ctx, t, true, overlay, folder)
		}
		if err != nil {
			return err
		}
		if m.asked != nil && found.by == timeLimit {
			found.outcome = "undecided"
		}
		fmt.Printf("%-11s %-8s %5.1fs  %s  (%s)\n", layers[i], found.outcome, time.Since(began).Seconds(), m.name, found.by)
		if err := r.record(m, i, found); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) result(m *mutant, layer int) result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.results[m.name][layer]
}

func (r *runner) record(m *mutant, layer int, found result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.file.results[m.name]
	of[layer] = found
	r.file.results[m.name] = of
	return r.file.write()
}

// survivors returns the mutants that break a promise, that all layers have tested, and
// that no layer has noticed.
func (all results) survivors(list []*mutant) (names []string) {
	for _, m := range list {
		of := all[m.name]
		if m.breaks != "" && !slices.ContainsFunc(of[:], func(r result) bool { return r.outcome == "noticed" || r.outcome == "" }) {
			names = append(names, m.name)
		}
	}
	return names
}
