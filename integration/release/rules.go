package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/zip"
)

// rules checks the rules that need no go command, and returns a sentence for each
// problem.
func rules(root string, modules []released) (problems []string, err error) {
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		// Each module is published alone, so each needs its own copy of the licence.
		if own, err := os.ReadFile(filepath.Join(m.abs, "LICENSE")); err != nil || !bytes.Equal(own, licence) {
			problems = append(problems, m.dir+": has no LICENSE like the root's")
		}
		// Modules that require this module ignore its replace lines, and Go does not
		// install commands of a module with such lines.
		text, err := os.ReadFile(filepath.Join(m.abs, "go.mod"))
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse("go.mod", text, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.dir, err)
		}
		for _, r := range file.Replace {
			problems = append(problems, fmt.Sprintf("%s/go.mod: a released module must not replace %s", m.dir, r.Old))
		}
		internal, err := internalImports(root+string(filepath.Separator), m, modules)
		if err != nil {
			return nil, err
		}
		problems = append(problems, internal...)
	}
	return problems, nil
}

// internalImports finds imports of the internal packages of a sibling module. Go allows them,
// because the paths of the two modules begin alike. But then users must upgrade the two modules
// together, and no message asks for that upgrade.
func internalImports(root string, m released, modules []released) (problems []string, err error) {
	packed, err := zip.CheckDir(m.abs)
	if err != nil {
		return nil, err
	}
	for _, name := range packed.Valid {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			if owner := ownerOf(imported, modules); owner != "" && owner != m.Path && slices.Contains(strings.Split(imported, "/"), "internal") {
				problems = append(problems, fmt.Sprintf("%s: imports %s, which is internal to another module", strings.TrimPrefix(name, root), imported))
			}
		}
	}
	return problems, nil
}

// ownerOf returns the path of the module that would provide a package, or "".
func ownerOf(imported string, modules []released) (owner string) {
	for _, m := range modules {
		if strings.HasPrefix(imported+"/", m.Path+"/") && len(m.Path) > len(owner) {
			owner = m.Path
		}
	}
	return owner
}
