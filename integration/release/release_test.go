package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// smallTree is a repository with a root module, a provider module that requires a
// third party, and a program for each.
var smallTree = map[string]string{
	"go.work": `go 1.26.0

use (
	.
	./integration
	./providers/sql
)

replace (
	ex.org/lease v0.1.0 => ./
	ex.org/lease/providers/sql v0.1.0 => ./providers/sql
)
`,
	"LICENSE":                            "anything\n",
	"go.mod":                             "module ex.org/lease\n\ngo 1.26.0\n",
	"lease.go":                           "package lease\n\nconst Name = \"lease\"\n",
	"internal/secret/doc.go":             "package secret\n",
	"integration/go.mod":                 "module ex.org/lease/integration\n\ngo 1.26.0\n",
	"providers/sql/LICENSE":              "anything\n",
	"providers/sql/go.mod":               "module ex.org/lease/providers/sql\n\ngo 1.26.0\n\nrequire (\n\tex.org/driver v1.0.0\n\tex.org/lease v0.1.0\n)\n",
	"providers/sql/sql.go":               "package sql\n\nimport (\n\t\"ex.org/driver\"\n\t\"ex.org/lease\"\n)\n\nvar Name = lease.Name + driver.Name\n",
	"integration/release/allow/root.txt": allowList("ex.org/lease"),
	"integration/release/allow/providers-sql.txt":         allowList("ex.org/lease/providers/sql", "ex.org/driver", "ex.org/lease"),
	"integration/release/consumers/root/main.go":          "package main\n\nimport \"ex.org/lease\"\n\nfunc main() { println(lease.Name) }\n",
	"integration/release/consumers/providers-sql/main.go": "package main\n\nimport \"ex.org/lease/providers/sql\"\n\nfunc main() { println(sql.Name) }\n",
}

// allowList returns an allow list with the same modules in each section.
func allowList(module string, brought ...string) string {
	text := lines(brought)
	return "# What " + module + ` brings along.
# Each line is a promise to its users: think before you add one.
# Written by: go run ./integration/release -update

[packages] # modules that its packages import (packages named ...test aside)
` + text + `
[program] # modules that a program using it links
` + text + `
[graph] # modules that go get brings into the module graph
` + text
}

// writeTree writes smallTree with some files changed. An empty text drops a file.
func writeTree(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := make(map[string]string)
	for _, from := range []map[string]string{smallTree, changes} {
		for name, text := range from {
			files[name] = text
		}
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

// serveDrivers makes a module proxy of files, which serves ex.org/driver and ex.org/stranger, and sets it as the only proxy, so
// that the tests need no network.
func serveDrivers(t *testing.T) {
	t.Helper()
	s := &sandbox{dir: t.TempDir()}
	for _, name := range []string{"driver", "stranger"} {
		src := filepath.Join(s.dir, name)
		require.NoError(t, os.MkdirAll(src, 0o755))
		for file, text := range map[string]string{
			"go.mod":     "module ex.org/" + name + "\n\ngo 1.26.0\n",
			name + ".go": "package " + name + "\n\nconst Name = \"" + name + "\"\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(src, file), []byte(text), 0o644))
		}
		require.NoError(t, s.publish(module.Version{Path: "ex.org/" + name, Version: "v1.0.0"}, src))
	}
	t.Setenv("GOPROXY", fileURL(filepath.Join(s.dir, "proxy")))
	t.Setenv("GOMODCACHE", filepath.Join(s.dir, "modcache"))
	t.Setenv("GONOSUMDB", "ex.org/driver,ex.org/stranger")
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("GOWORK", "")
}

func TestCheckPasses(t *testing.T) {
	serveDrivers(t)
	require.NoError(t, check(t.Context(), writeTree(t, nil), false))
}

// Whatever would stop a stranger from using a module fails the check, with a message that names the problem.
func TestCheckFails(t *testing.T) {
	servertest.Long(t)
	serveDrivers(t)
	for name, c := range map[string]struct {
		changes map[string]string
		says    []string
	}{
		"a replace in a released module": {
			map[string]string{"providers/sql/go.mod": smallTree["providers/sql/go.mod"] + "\nreplace ex.org/lease => ../..\n"},
			[]string{"providers/sql/go.mod: a released module must not replace ex.org/lease"},
		},
		"a missing licence": {
			map[string]string{"providers/sql/LICENSE": ""},
			[]string{"providers/sql: has no LICENSE like the root's"},
		},
		"another licence": {
			map[string]string{"providers/sql/LICENSE": "something else\n"},
			[]string{"providers/sql: has no LICENSE like the root's"},
		},
		"an unexpected dependency": {
			map[string]string{
				"go.mod":   smallTree["go.mod"] + "\nrequire ex.org/stranger v1.0.0\n",
				"lease.go": "package lease\n\nimport \"ex.org/stranger\"\n\nconst Name = stranger.Name\n",
			},
			[]string{
				"ex.org/lease: differs from integration/release/allow/root.txt",
				"[packages] # modules that its packages import (packages named ...test aside)\n+ex.org/stranger",
				"[program] # modules that a program using it links\n+ex.org/stranger",
				"[graph] # modules that go get brings into the module graph\n+ex.org/stranger",
			},
		},
		"a dependency of tests, which only the graph shows": {
			map[string]string{
				"go.mod":        smallTree["go.mod"] + "\nrequire ex.org/stranger v1.0.0\n",
				"lease_test.go": "package lease\n\nimport _ \"ex.org/stranger\"\n",
			},
			[]string{"[graph] # modules that go get brings into the module graph\n+ex.org/stranger"},
		},
		"a listed dependency that is gone": {
			map[string]string{"integration/release/allow/root.txt": allowList("ex.org/lease", "ex.org/driver")},
			[]string{"-ex.org/driver"},
		},
		"a sibling's internal package": {
			map[string]string{"providers/sql/peek.go": "package sql\n\nimport _ \"ex.org/lease/internal/secret\"\n"},
			[]string{"providers/sql/peek.go: imports ex.org/lease/internal/secret"},
		},
		"a sibling at another version": {
			map[string]string{"providers/sql/go.mod": strings.Replace(smallTree["providers/sql/go.mod"], "lease v0.1.0", "lease v0.0.9", 1)},
			[]string{"ex.org/lease@v0.0.9"},
		},
		"a requirement of what is never released": {
			map[string]string{"providers/sql/go.mod": strings.Replace(smallTree["providers/sql/go.mod"], "lease v0.1.0", "lease/integration v0.1.0", 1)},
			[]string{"ex.org/lease/integration@v0.1.0"},
		},
		"a released module that nobody tries": {
			map[string]string{"integration/release/consumers/providers-sql/main.go": ""},
			[]string{"every released module needs a small program"},
		},
		"a program that fails": {
			map[string]string{"integration/release/consumers/root/main.go": "package main\n\nimport \"ex.org/lease\"\n\nfunc main() { panic(lease.Name) }\n"},
			[]string{"./program: exit status 2", "panic: lease"},
		},
		"a file that only the working tree has": {
			map[string]string{
				"lease.go":          "package lease\n\nimport _ \"embed\"\n\n//go:embed vendor/x/name.txt\nvar Name string\n",
				"vendor/x/name.txt": "not packed, since proxies leave vendor folders out\n",
			},
			[]string{"vendor/x/name.txt"},
		},
		"a go.mod that lacks a requirement": {
			map[string]string{"providers/sql/go.mod": strings.Replace(smallTree["providers/sql/go.mod"], "\tex.org/driver v1.0.0\n", "", 1)},
			[]string{"providers/sql", "go.mod is not complete; run make tidy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(t.Context(), writeTree(t, c.changes), false)
			require.Error(t, err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestUpdateWritesWhatThenPasses(t *testing.T) {
	serveDrivers(t)
	dir := writeTree(t, map[string]string{"integration/release/allow/providers-sql.txt": "# nothing yet\n"})
	require.NoError(t, check(t.Context(), dir, true))
	require.NoError(t, check(t.Context(), dir, false))
}

func TestNothingIsLeftBehind(t *testing.T) {
	serveDrivers(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	require.Error(t, check(t.Context(), writeTree(t, map[string]string{"providers/sql/LICENSE": ""}), false))
	require.NoError(t, check(t.Context(), writeTree(t, nil), false))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, check(ctx, writeTree(t, nil), false))
	left, err := filepath.Glob(filepath.Join(temp, "leasing-release-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWithoutAWorkspace(t *testing.T) {
	t.Setenv("GOWORK", "")
	require.ErrorContains(t, check(t.Context(), t.TempDir(), false), "go.work")
}
