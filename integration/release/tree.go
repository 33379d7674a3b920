package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// unreleased are the folders of the modules that are never published.
var unreleased = []string{"bench", "integration", "samples"}

// repoModule is one module of the repository.
type repoModule struct {
	path     string // module path
	dir      string // folder, relative to the tree, with slashes; "." is the root
	abs      string // the same, absolute
	file     *modfile.File
	released bool
}

func (m *repoModule) version() module.Version {
	return module.Version{Path: m.path, Version: NextVersion}
}

// slug names the module in file names.
func (m *repoModule) slug() string {
	if m.dir == "." {
		return "root"
	}
	return strings.ReplaceAll(m.dir, "/", "-")
}

// tree is the repository: the modules of go.work, each after those it requires.
type tree struct {
	dir     string
	work    *modfile.WorkFile
	modules []*repoModule
	outside []string // folders of modules that go.work leaves out
}

func loadTree(ctx context.Context, dir string) (*tree, error) {
	abs, err := findWork(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(abs, "go.work")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(file, text, nil)
	if err != nil {
		return nil, err
	}
	t := &tree{dir: abs, work: work}
	for _, use := range work.Use {
		m, err := loadModule(abs, use.Path)
		if err != nil {
			return nil, err
		}
		t.modules = append(t.modules, m)
	}
	if t.modules, err = t.inOrder(); err != nil {
		return nil, err
	}
	t.outside, err = t.findOutside(ctx)
	return t, err
}

func findWork(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.work in %s or above", start)
		}
	}
}

func loadModule(root, use string) (*repoModule, error) {
	dir := filepath.ToSlash(filepath.Clean(use))
	abs := filepath.Join(root, filepath.FromSlash(dir))
	name := filepath.Join(abs, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	return &repoModule{
		path:     file.Module.Mod.Path,
		dir:      dir,
		abs:      abs,
		file:     file,
		released: !slices.Contains(unreleased, dir),
	}, nil
}

func (t *tree) released() []*repoModule {
	return slices.DeleteFunc(slices.Clone(t.modules), func(m *repoModule) bool { return !m.released })
}

// module is the module with that path, or nil.
func (t *tree) module(path string) *repoModule {
	for _, m := range t.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

// ours says whether a module path, or a go.sum line that begins with one, is
// of this repository.
func (t *tree) ours(line string) bool {
	path, _, _ := strings.Cut(line, " ")
	return t.module(path) != nil
}

// owner is the module that would provide an import path, or nil.
func (t *tree) owner(importPath string) *repoModule {
	var best *repoModule
	for _, m := range t.modules {
		inside := importPath == m.path || strings.HasPrefix(importPath, m.path+"/")
		if inside && (best == nil || len(m.path) > len(best.path)) {
			best = m
		}
	}
	return best
}

// inOrder sorts the modules so that each comes after those it requires, and the
// released ones before the others.
func (t *tree) inOrder() ([]*repoModule, error) {
	var sorted []*repoModule
	state := make(map[*repoModule]int) // 1 on the way, 2 done
	var visit func(*repoModule) error
	visit = func(m *repoModule) error {
		switch state[m] {
		case 1:
			return fmt.Errorf("%s requires itself through its siblings", m.path)
		case 2:
			return nil
		}
		state[m] = 1
		for _, r := range m.file.Require {
			if sibling := t.module(r.Mod.Path); sibling != nil {
				if err := visit(sibling); err != nil {
					return err
				}
			}
		}
		state[m] = 2
		sorted = append(sorted, m)
		return nil
	}
	for _, m := range t.modules {
		if err := visit(m); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(sorted, func(a, b *repoModule) int {
		switch {
		case a.released == b.released:
			return 0
		case a.released:
			return -1
		}
		return 1
	})
	return sorted, nil
}

// findOutside lists the folders below the tree with a go.mod that go.work
// doesn't use.
func (t *tree) findOutside(ctx context.Context) ([]string, error) {
	var found []string
	err := filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && skipped(d.Name()) && path != t.dir {
			return fs.SkipDir
		}
		if d.Name() != "go.mod" {
			return ctx.Err()
		}
		dir, err := filepath.Rel(t.dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if !slices.ContainsFunc(t.modules, func(m *repoModule) bool { return m.dir == dir }) {
			found = append(found, dir)
		}
		return nil
	})
	return found, err
}

// skipped says whether the go command ignores a folder of that name.
func skipped(name string) bool {
	return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
