package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// toolsDir holds the pinned developer tools, in a module outside the workspace:
// inside, their requirements would raise the versions that the tests run with.
const toolsDir = "integration/tools"

// rules holds the files of the tree to what needs no go command, and returns
// what is wrong, one sentence each.
func rules(t *tree) ([]string, error) {
	problems := workRules(t)
	for _, m := range t.modules {
		problems = append(problems, modRules(t, m)...)
		sums, err := sumRules(t, m)
		if err != nil {
			return nil, err
		}
		problems = append(problems, sums...)
	}
	for _, m := range t.released() {
		for _, rule := range []func(*tree, *repoModule) ([]string, error){licenceRules, importRules} {
			found, err := rule(t, m)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
	}
	return problems, nil
}

// workRules: every module is in the workspace, and every released one is
// replaced there at the next version by its folder.
func workRules(t *tree) []string {
	var problems []string
	for _, dir := range t.outside {
		if dir != toolsDir {
			problems = append(problems, fmt.Sprintf("go.work does not use ./%s", dir))
		}
	}
	for _, m := range t.released() {
		if !slices.ContainsFunc(t.work.Replace, func(r *modfile.Replace) bool {
			return r.Old == m.version() && filepath.ToSlash(filepath.Clean(r.New.Path)) == m.dir
		}) {
			problems = append(problems, fmt.Sprintf("go.work does not replace %s %s => ./%s", m.path, NextVersion, m.dir))
		}
	}
	return problems
}

// modRules: siblings are required at the next version; and what is released
// has no replace, and requires nothing that isn't.
func modRules(t *tree, m *repoModule) []string {
	var problems []string
	file := filepath.ToSlash(filepath.Join(m.dir, "go.mod"))
	for _, r := range m.file.Require {
		sibling := t.module(r.Mod.Path)
		if sibling == nil {
			continue
		}
		if r.Mod.Version != NextVersion {
			problems = append(problems, fmt.Sprintf("%s: requires %s, not %s", file, r.Mod, NextVersion))
		}
		if m.released && !sibling.released {
			problems = append(problems, fmt.Sprintf("%s: requires %s, which is never released", file, r.Mod.Path))
		}
	}
	if !m.released {
		return problems
	}
	for _, r := range m.file.Replace {
		problems = append(problems, fmt.Sprintf("%s: a released module must not replace %s", file, r.Old))
	}
	return problems
}

// sumRules: go.sum can't know the sum of a sibling that is not published yet.
func sumRules(t *tree, m *repoModule) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(m.abs, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if t.ours(line) {
			return []string{fmt.Sprintf("%s: holds a line of %s, which is of this repository",
				filepath.ToSlash(filepath.Join(m.dir, "go.sum")), strings.Fields(line)[0])}, nil
		}
	}
	return nil, nil
}

// licenceRules: a module is published alone, so each carries the licence.
func licenceRules(t *tree, m *repoModule) ([]string, error) {
	want, err := os.ReadFile(filepath.Join(t.dir, "LICENSE"))
	if err != nil {
		return nil, err
	}
	got, err := os.ReadFile(filepath.Join(m.abs, "LICENSE"))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{fmt.Sprintf("%s: has no LICENSE; copy the root's", m.dir)}, nil
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return []string{fmt.Sprintf("%s/LICENSE: differs from the root's", m.dir)}, nil
	}
	return nil, nil
}

// importRules: Go allows a sibling module to import this one's internal
// packages, as its path begins the same; but then the two must be upgraded
// together, and nothing tells users so.
func importRules(t *tree, m *repoModule) ([]string, error) {
	var problems []string
	err := filepath.WalkDir(m.abs, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != m.abs && (skipped(d.Name()) || hasGoMod(path)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		found, err := internalImports(t, m, path)
		problems = append(problems, found...)
		return err
	})
	return problems, err
}

func internalImports(t *tree, m *repoModule, path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		owner := t.owner(imported)
		if owner != nil && owner != m && slices.Contains(strings.Split(imported, "/"), "internal") {
			rel, err := filepath.Rel(t.dir, path)
			if err != nil {
				return nil, err
			}
			problems = append(problems, fmt.Sprintf("%s: imports %s, which is internal to another module",
				filepath.ToSlash(rel), imported))
		}
	}
	return problems, nil
}

func hasGoMod(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
