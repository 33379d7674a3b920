// Command mutants damages the code on purpose, one named change at a time, and says which
// layer of the tests notices: the packages' own tests, the conformance suite, torture. The
// changes are in mutants.txt, and what came of them is in results.tsv and docs/mutants.md.
//
//	go run ./mutants                        # all of them, which takes an hour or two
//	go run ./mutants -run 'trust: '         # those whose name matches
//	go run ./mutants -files '^renewal.go'   # those that change such files
//	go run ./mutants -layer conformance     # one layer
//	go run ./mutants -resume                # only what has no result yet
//	go run ./mutants -report                # runs nothing, writes docs/mutants.md
//
// The servers that the tests need must run, as for `make test`. `make mutants` sees to that. Tests
// count that pass on the code as it is, which is tried first.
// The exit code is 1 if a mutant that breaks a promise survives all layers.
package main

import (
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
	limit time.Duration // for the tests of one layer, at least

	mu        sync.Mutex
	busy      map[string]*sync.Mutex
	unchanged map[tests]func() (time.Duration, error)
	results   results
	errs      []error
}

func main() {
	only := flag.String("run", "", "a `regexp` of the mutants' names, which begin with the class")
	files := flag.String("files", "", "a `regexp` of the changed files' paths, from the root")
	layer := flag.String("layer", "", "one of: "+strings.Join(layers, ", "))
	parallel := flag.Int("parallel", 2, "how many mutants at a time")
	limit := flag.Duration("limit", 5*time.Minute, "for the tests of one layer; a mutant that takes longer, and five times as long as the code as it is, is noticed")
	resume := flag.Bool("resume", false, "keep the results that there are")
	report := flag.Bool("report", false, "only write docs/mutants.md")
	root := flag.String("root", "..", "the repository")
	file := flag.String("results", "mutants/results.tsv", "where results are kept")
	flag.Parse()
	survivors, err := run(*only, *files, *layer, *root, *file, *parallel, *limit, *resume, *report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	for _, name := range survivors {
		fmt.Println("survives:", name)
	}
	if len(survivors) > 0 {
		os.Exit(1)
	}
}

func run(only, files, layer, root, file string, parallel int, limit time.Duration, resume, report bool) (survivors []string, err error) {
	list, err := parse(listText)
	if err != nil {
		return nil, err
	}
	chosen, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	changing, err := regexp.Compile(files)
	if err != nil {
		return nil, err
	}
	r := &runner{limit: limit, busy: map[string]*sync.Mutex{}, unchanged: map[tests]func() (time.Duration, error){}}
	if r.root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if r.results, err = readResults(file, list); err != nil {
		return nil, err
	}
	if !report {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		var all sync.WaitGroup
		slots := make(chan struct{}, parallel)
		for _, m := range list {
			if !chosen.MatchString(m.name) || !changing.MatchString(m.edits[0].file) {
				continue
			}
			all.Go(func() {
				defer r.alone(m.area().busy)()
				slots <- struct{}{}
				defer func() { <-slots }()
				if err := r.runMutant(ctx, m, layer, resume, file); err != nil && ctx.Err() == nil {
					r.failed(fmt.Errorf("%s: %w", m.name, err))
				}
			})
		}
		all.Wait()
		for _, err := range r.errs {
			fmt.Fprintln(os.Stderr, "mutants:", err)
		}
		if ctx.Err() != nil {
			return nil, errors.New("interrupted: -resume goes on")
		}
		if len(r.errs) > 0 {
			return nil, fmt.Errorf("%d mutants were not run", len(r.errs))
		}
	}
	if err := os.WriteFile(filepath.Join(r.root, "docs", "mutants.md"), []byte(page(list, r.results)), 0o644); err != nil {
		return nil, err
	}
	return r.results.survivors(list), nil
}

func (r *runner) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// alone waits until nobody else is busy with the same server, and returns the end of that.
func (r *runner) alone(server string) (end func()) {
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

// runMutant runs the layers that are asked for, and keeps what they say.
func (r *runner) runMutant(ctx context.Context, m *mutant, only string, resume bool, file string) error {
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
	for i, t := range a.layers {
		if only != "" && only != layers[i] || resume && r.result(m, i).outcome != "" {
			continue
		}
		began := time.Now()
		found, err := r.look(ctx, t, a.busy != "", overlay, folder)
		for err == nil && found.outcome == "missed" && t.then != nil {
			t = *t.then
			found, err = r.look(ctx, t, true, overlay, folder)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%-11s %-8s %5.1fs  %s  (%s)\n", layers[i], found.outcome, time.Since(began).Seconds(), m.name, found.by)
		if err := r.keep(m, i, found, file); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) result(m *mutant, layer int) result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.results[m.name][layer]
}

func (r *runner) keep(m *mutant, layer int, found result, file string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.results[m.name]
	of[layer] = found
	r.results[m.name] = of
	return r.results.write(file)
}

// survivors are the mutants that break a promise and that no layer has noticed, of those
// that all layers have looked at.
func (all results) survivors(list []*mutant) (names []string) {
	for _, m := range list {
		of := all[m.name]
		if m.breaks != "" && !slices.ContainsFunc(of[:], func(r result) bool { return r.outcome == "noticed" || r.outcome == "" }) {
			names = append(names, m.name)
		}
	}
	return names
}
