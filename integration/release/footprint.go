package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// consumer is the module of a user of a released module.
const consumer = "example.com/consumer"

// footprint returns the text of an allow list with exactly the modules that m adds to a consumer in dir. Versions are left out,
// so that an upgrade doesn't change the list.
func (s *sandbox) footprint(ctx context.Context, m released, dir string) (string, error) {
	imported, err := s.importedModules(ctx, m, dir)
	if err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(filepath.Join(dir, "program")) // as go version -m
	if err != nil {
		return "", err
	}
	var linked []string
	for _, dep := range info.Deps {
		linked = append(linked, dep.Path)
	}
	// go list -m all would also ask a proxy for the time of each module's publication.
	graph, err := s.run(ctx, dir, "go", "mod", "graph")
	if err != nil {
		return "", err
	}
	return "# What " + m.Path + ` brings along.
# Each line is a promise to its users: think before you add one.
# Written by: go run ./integration/release -update

[packages] # modules that its packages import (packages named ...test aside)
` + lines(imported, m.Path) + `
[program] # modules that a program using it links
` + lines(linked, m.Path) + `
[graph] # modules that go get brings into the module graph
` + lines(strings.Fields(graph), m.Path, consumer, "go", "toolchain"), nil
}

// lines returns module paths, one per line, sorted, and without versions and duplicates. It leaves out the paths in without.
func lines(modules []string, without ...string) string {
	var paths []string
	for _, m := range modules {
		path, _, _ := strings.Cut(m, "@")
		if !slices.Contains(without, path) {
			paths = append(paths, path+"\n")
		}
	}
	slices.Sort(paths)
	return strings.Join(slices.Compact(paths), "")
}

// importedModules builds and vets the module as it was packed, and returns the modules that its
// packages need. Packages whose name ends in "test", like net/http/httptest, and packages inside
// them, are linked only into tests and may need more.
func (s *sandbox) importedModules(ctx context.Context, m released, dir string) ([]string, error) {
	packed, err := s.run(ctx, dir, "go", "list", "-m", "-f", "{{.Dir}}", m.Path)
	if err != nil {
		return nil, err
	}
	packed = strings.TrimSpace(packed)
	// The go command completes a copy of go.mod and go.sum, since the files in the module
	// cache are read-only.
	mod := filepath.Join(dir, "packed.mod")
	if err := copyFile(filepath.Join(packed, "go.mod"), mod); err != nil {
		return nil, err
	}
	if err := copyFile(filepath.Join(dir, "go.sum"), filepath.Join(dir, "packed.sum")); err != nil {
		return nil, err
	}
	for _, verb := range []string{"build", "vet"} {
		if _, err := s.run(ctx, packed, "go", verb, "-modfile="+mod, "./..."); err != nil {
			return nil, err
		}
	}
	if _, err := s.run(ctx, dir, "diff", "-u", filepath.Join(packed, "go.mod"), mod); err != nil {
		return nil, errors.Join(errors.New("go.mod is not complete; run make tidy"), err)
	}
	all, err := s.run(ctx, packed, "go", "list", "-modfile="+mod, "./...")
	if err != nil {
		return nil, err
	}
	list := []string{"go", "list", "-modfile=" + mod, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	for _, pkg := range strings.Fields(all) {
		if !strings.HasSuffix(pkg, "test") && !strings.Contains(pkg, "test/internal/") {
			list = append(list, pkg)
		}
	}
	imported, err := s.run(ctx, packed, list...)
	return strings.Fields(imported), err
}
