package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// programTime is far more than a small program needs to acquire and release.
const programTime = time.Minute

// consume does what the first user of a release does: an empty module, go get,
// a small program, go run. It notes what came along.
func (s *sandbox) consume(ctx context.Context, m *repoModule, found footprint) error {
	dir := s.path("consumers", m.slug())
	if err := s.copyProgram(m, dir); err != nil {
		return err
	}
	if _, err := s.run(ctx, dir, "go", "mod", "init", "example.com/consumer"); err != nil {
		return err
	}
	if err := s.seedSums(m, dir); err != nil {
		return err
	}
	if _, err := s.run(ctx, dir, "go", "get", m.path+"@"+NextVersion); err != nil {
		return err
	}
	if _, err := s.run(ctx, dir, "go", "build", "-o", "program", "."); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	if _, err := s.run(limited, dir, "./program"); err != nil {
		return err
	}
	return s.measure(ctx, m, dir, found)
}

func (s *sandbox) copyProgram(m *repoModule, dir string) error {
	from := filepath.Join(s.tree.dir, "integration", "release", "consumers", m.slug(), "main.go")
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("every released module needs a small program that uses it: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), text, 0o644)
}

// seedSums begins the consumer's go.sum with the module's own. What those lines
// say was verified when they were written, and the checksum database, which may
// be out of reach, need not be asked again.
func (s *sandbox) seedSums(m *repoModule, dir string) error {
	text, err := os.ReadFile(filepath.Join(m.abs, "go.sum"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), text, 0o644)
}

func (s *sandbox) measure(ctx context.Context, m *repoModule, dir string, found footprint) error {
	info, err := buildinfo.ReadFile(filepath.Join(dir, "program")) // as go version -m
	if err != nil {
		return err
	}
	var linked []string
	for _, dep := range info.Deps {
		if dep.Path == m.path && dep.Version != NextVersion {
			return fmt.Errorf("the program links %s %s, not %s", dep.Path, dep.Version, NextVersion)
		}
		linked = append(linked, dep.Path)
	}
	graph, err := s.run(ctx, dir, "go", "mod", "graph")
	if err != nil {
		return err
	}
	found[byProgram] = modulesIn(strings.Join(linked, "\n"), m.path)
	found[byGraph] = modulesIn(graphPaths(graph), m.path, "example.com/consumer")
	return nil
}

// graphPaths are the module paths in what go mod graph says: those of go list -m
// all, which would also want a proxy's word on when each was published.
func graphPaths(graph string) string {
	var paths []string
	for _, node := range strings.Fields(graph) {
		path, _, _ := strings.Cut(node, "@")
		if path != "go" && path != "toolchain" {
			paths = append(paths, path)
		}
	}
	return strings.Join(paths, "\n")
}

// modulesIn sorts a list of module paths, drops repetitions, and leaves some out.
func modulesIn(list string, without ...string) []string {
	paths := slices.DeleteFunc(strings.Fields(list), func(p string) bool { return slices.Contains(without, p) })
	slices.Sort(paths)
	return slices.Compact(paths)
}
