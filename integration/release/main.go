// Command release uses every module of the next release as a stranger would, before
// anything is published.
//
//	release [-update]
//
// The released modules are those that go.work replaces, at the version of its
// replace lines, which no proxy has yet. So each module is packed from the working
// tree into a module proxy made of files, and the go command runs outside the
// workspace, with that proxy before the user's own and with a fresh module cache.
//
// It fails unless, for every released module,
//   - the rules in rules.go hold: no replace, a licence, no sibling's internals;
//   - it builds and vets as it was packed;
//   - in an empty module, `go get` adds it, and its program (consumer.go) builds,
//     runs, and succeeds;
//   - the program links the modules that allow/ lists, and no other module comes into
//     its module graph.
//
// With -update the lists in allow/ are written instead of compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	update := flag.Bool("update", false, "write the lists in allow/")
	flag.Parse()
	err := fmt.Errorf("there is no argument %q", flag.Arg(0))
	if flag.NArg() == 0 {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = check(ctx, ".", *update)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// released is a module that would be published.
type released struct {
	module.Version
	dir  string // relative to the root, with slashes; "." is the root
	abs  string
	slug string // stands for the module in file names
}

// check checks the repository whose go.work is in dir or in a folder above dir. It goes on to the
// next module after a failure, to report all failures at once.
func check(ctx context.Context, dir string, update bool) (err error) {
	env, err := goEnv(ctx, dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(env.GOWORK)
	if err != nil {
		return fmt.Errorf("go.work: %w", err)
	}
	work, err := modfile.ParseWork(env.GOWORK, text, nil)
	if err != nil {
		return err
	}
	root := filepath.Dir(env.GOWORK)
	var modules []released
	for _, r := range work.Replace {
		m := released{Version: r.Old, dir: filepath.ToSlash(filepath.Clean(r.New.Path)), abs: filepath.Join(root, r.New.Path), slug: "root"}
		if m.dir != "." {
			m.slug = strings.ReplaceAll(m.dir, "/", "-")
		}
		modules = append(modules, m)
	}
	problems, err := rules(root, modules)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.New("these rules are broken:\n  " + strings.Join(problems, "\n  "))
	}
	s, err := newSandbox(root, env, modules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }() // -modcacherw keeps the cache's folders writable
	for _, m := range modules {
		if err := s.publish(m.Version, m.abs); err != nil {
			return err
		}
	}
	var failures []error
	for _, m := range modules {
		if err := s.checkModule(ctx, m, update); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", m.Path, err))
			continue
		}
		fmt.Printf("%s: builds, vets, and works in an empty module\n", m)
	}
	return errors.Join(failures...)
}

// goSettings are the settings of the user's go command.
type goSettings struct{ GOWORK, GOMODCACHE, GOPROXY, GONOSUMDB string }

func goEnv(ctx context.Context, dir string) (env goSettings, err error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOWORK", "GOMODCACHE", "GOPROXY", "GONOSUMDB")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	if err != nil {
		return env, fmt.Errorf("go env: %w", err)
	}
	return env, nil
}

// programTime is far more than a small program needs to acquire and release a lease.
const programTime = time.Minute

// checkModule follows the steps of the first user of a release: an empty module, go get, a small
// program, go run. Then it checks the modules that go get has added against the allow list.
func (s *sandbox) checkModule(ctx context.Context, m released, update bool) error {
	dir := filepath.Join(s.dir, "consumers", m.slug)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release := filepath.Join(s.root, "integration", "release")
	if _, err := s.run(ctx, dir, "go", "mod", "init", consumer); err != nil {
		return err
	}
	// The sums in the module's own go.sum were verified when they were written, so the checksum database, which may be unreachable,
	// is not needed.
	if err := copyFile(filepath.Join(m.abs, "go.sum"), filepath.Join(dir, "go.sum")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	program, use := ".", []string{"./program"}
	if command, ok := commands[m.slug]; ok {
		program = m.Path
		for _, argument := range command {
			use = append(use, strings.ReplaceAll(argument, "FOLDER", dir))
		}
	} else if err := writeConsumer(release, m, filepath.Join(dir, "main.go")); err != nil {
		return fmt.Errorf("every released module needs a small program that uses it: %w", err)
	}
	for _, command := range [][]string{{"go", "get", m.String()}, {"go", "build", "-o", "program", program}} {
		if _, err := s.run(ctx, dir, command...); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	if _, err := s.run(limited, dir, use...); err != nil {
		return err
	}
	found, err := s.footprint(ctx, m, dir)
	if err != nil {
		return err
	}
	allowed := filepath.Join(release, "allow", m.slug+".txt")
	if update {
		return os.WriteFile(allowed, []byte(found), 0o644)
	}
	list := filepath.Join(dir, "found.txt")
	if err := os.WriteFile(list, []byte(found), 0o644); err != nil {
		return err
	}
	if _, err := s.run(ctx, dir, "diff", "-u", allowed, list); err != nil {
		return fmt.Errorf("differs from integration/release/allow/%s.txt: %w", m.slug, err)
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
