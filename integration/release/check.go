package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// check packs the released modules and uses each like a stranger would. It goes
// on to the next module after a failure, to report all at once.
func check(ctx context.Context, t *tree, update bool) (err error) {
	problems, err := rules(t)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.New("these rules are broken:\n  " + strings.Join(problems, "\n  "))
	}
	s, err := newSandbox(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, m := range t.released() {
		if err := s.publish(m.version(), m.abs); err != nil {
			return err
		}
	}
	var failures []error
	for _, m := range t.released() {
		if err := s.checkModule(ctx, m, update); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", m.path, err))
			continue
		}
		fmt.Printf("%s %s: builds, vets, and works in an empty module\n", m.path, NextVersion)
	}
	return errors.Join(failures...)
}

func (s *sandbox) checkModule(ctx context.Context, m *repoModule, update bool) error {
	found := make(footprint)
	var err error
	if found[byPackages], err = s.buildPacked(ctx, m); err != nil {
		return err
	}
	if err := s.consume(ctx, m, found); err != nil {
		return err
	}
	file := filepath.Join(s.tree.dir, "integration", "release", "allow", m.slug()+".txt")
	if update {
		return os.WriteFile(file, []byte(found.format(m.path)), 0o644)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	allowed, err := parseAllow(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if d := found.against(allowed); d != "" {
		return fmt.Errorf("differs from integration/release/allow/%s.txt (+ found, - listed):\n%s", m.slug(), d)
	}
	return nil
}

// buildPacked builds and vets the module as it was packed, outside the
// workspace, and returns the modules that its packages import.
func (s *sandbox) buildPacked(ctx context.Context, m *repoModule) ([]string, error) {
	dir, err := s.unpack(m)
	if err != nil {
		return nil, err
	}
	for _, verb := range []string{"build", "vet"} {
		if _, err := s.run(ctx, dir, "go", verb, "./..."); err != nil {
			return nil, err
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	before, err := os.ReadFile(filepath.Join(m.abs, "go.mod"))
	if err != nil {
		return nil, err
	}
	if string(before) != string(after) {
		return nil, fmt.Errorf("go.mod is not complete; run make tidy:\n%s",
			diff(strings.Split(string(before), "\n"), strings.Split(string(after), "\n")))
	}
	return s.importedModules(ctx, m, dir)
}

// importedModules are the other modules that the module's packages need. Those
// whose name ends in "test", like net/http/httptest, are linked into tests only
// and may need more.
func (s *sandbox) importedModules(ctx context.Context, m *repoModule, dir string) ([]string, error) {
	all, err := s.run(ctx, dir, "go", "list", "./...")
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	for _, pkg := range strings.Fields(all) {
		if !strings.HasSuffix(pkg, "test") {
			args = append(args, pkg)
		}
	}
	out, err := s.run(ctx, dir, "go", args...)
	if err != nil {
		return nil, err
	}
	return modulesIn(out, m.path), nil
}
