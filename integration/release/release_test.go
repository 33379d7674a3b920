package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"

	"github.com/stretchr/testify/require"
)

// small is a repository with a root module, a provider module that requires a
// third party, and a program for each.
var small = map[string]string{
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
	"integration/release/allow/root.txt": "[packages]\n[program]\n[graph]\n",
	"integration/release/allow/providers-sql.txt":         "[packages]\nex.org/driver\nex.org/lease\n[program]\nex.org/driver\nex.org/lease\n[graph]\nex.org/driver\nex.org/lease\n",
	"integration/release/consumers/root/main.go":          "package main\n\nimport \"ex.org/lease\"\n\nfunc main() { println(lease.Name) }\n",
	"integration/release/consumers/providers-sql/main.go": "package main\n\nimport \"ex.org/lease/providers/sql\"\n\nfunc main() { println(sql.Name) }\n",
}

// plant writes the small repository, changed: an empty text drops a file.
func plant(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := make(map[string]string)
	for _, from := range []map[string]string{small, changes} {
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

// serveDrivers makes a proxy of files with ex.org/driver and ex.org/stranger the
// only one, so that the tests need no network.
func serveDrivers(t *testing.T) {
	t.Helper()
	s := &sandbox{dir: t.TempDir()}
	for _, name := range []string{"driver", "stranger"} {
		src := s.path(name)
		require.NoError(t, os.MkdirAll(src, 0o755))
		for file, text := range map[string]string{
			"go.mod":     "module ex.org/" + name + "\n\ngo 1.26.0\n",
			name + ".go": "package " + name + "\n\nconst Name = \"" + name + "\"\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(src, file), []byte(text), 0o644))
		}
		require.NoError(t, s.publish(module.Version{Path: "ex.org/" + name, Version: "v1.0.0"}, src))
	}
	t.Setenv("GOPROXY", fileURL(s.path("proxy")))
	t.Setenv("GOMODCACHE", s.path("modcache"))
	t.Setenv("GONOSUMDB", "ex.org/driver,ex.org/stranger")
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("GOWORK", "")
}

func release(t *testing.T, dir string, args ...string) error {
	t.Helper()
	return run(t.Context(), dir, args)
}

func TestCheckPasses(t *testing.T) {
	serveDrivers(t)
	dir := plant(t, nil)
	require.NoError(t, release(t, dir, "tidy")) // adds the driver's sums
	require.NoError(t, release(t, dir, "check"))
	require.NoError(t, release(t, dir, "tidy", "-diff"))
}

// What a stranger would trip over fails the check, and the message says what.
func TestCheckFails(t *testing.T) {
	serveDrivers(t)
	for name, c := range map[string]struct {
		changes map[string]string
		says    []string
	}{
		"a replace in a released module": {
			map[string]string{"providers/sql/go.mod": small["providers/sql/go.mod"] + "\nreplace ex.org/lease => ../..\n"},
			[]string{"providers/sql/go.mod: a released module must not replace ex.org/lease"},
		},
		"a missing licence": {
			map[string]string{"providers/sql/LICENSE": ""},
			[]string{"providers/sql: has no LICENSE"},
		},
		"another licence": {
			map[string]string{"providers/sql/LICENSE": "something else\n"},
			[]string{"providers/sql/LICENSE: differs"},
		},
		"an unexpected dependency": {
			map[string]string{
				"go.mod":   small["go.mod"] + "\nrequire ex.org/stranger v1.0.0\n",
				"lease.go": "package lease\n\nimport \"ex.org/stranger\"\n\nconst Name = stranger.Name\n",
			},
			[]string{
				"ex.org/lease: differs from integration/release/allow/root.txt",
				"[packages]", "[program]", "[graph]", "+ ex.org/stranger",
			},
		},
		"a dependency of tests, which only the graph shows": {
			map[string]string{
				"go.mod":        small["go.mod"] + "\nrequire ex.org/stranger v1.0.0\n",
				"lease_test.go": "package lease\n\nimport _ \"ex.org/stranger\"\n",
			},
			[]string{"[graph]", "+ ex.org/stranger"},
		},
		"a listed dependency that is gone": {
			map[string]string{"integration/release/allow/root.txt": "[packages]\nex.org/driver\n"},
			[]string{"- ex.org/driver"},
		},
		"a sibling's internal package": {
			map[string]string{"providers/sql/peek.go": "package sql\n\nimport _ \"ex.org/lease/internal/secret\"\n"},
			[]string{"providers/sql/peek.go: imports ex.org/lease/internal/secret"},
		},
		"a sibling at another version": {
			map[string]string{"providers/sql/go.mod": strings.Replace(small["providers/sql/go.mod"], "lease v0.1.0", "lease v0.0.9", 1)},
			[]string{"providers/sql/go.mod: requires ex.org/lease@v0.0.9, not v0.1.0"},
		},
		"a requirement of what is never released": {
			map[string]string{"providers/sql/go.mod": strings.Replace(small["providers/sql/go.mod"], "lease v0.1.0", "lease/integration v0.1.0", 1)},
			[]string{"requires ex.org/lease/integration, which is never released"},
		},
		"a sum of a sibling": {
			map[string]string{"providers/sql/go.sum": "ex.org/lease v0.1.0 h1:AAAA\n"},
			[]string{"providers/sql/go.sum: holds a line of ex.org/lease"},
		},
		"a module outside the workspace": {
			map[string]string{"extra/go.mod": "module ex.org/lease/extra\n"},
			[]string{"go.work does not use ./extra"},
		},
		"a released module without a replace in go.work": {
			map[string]string{"go.work": strings.Replace(small["go.work"], "\tex.org/lease v0.1.0 => ./\n", "", 1)},
			[]string{"go.work does not replace ex.org/lease v0.1.0 => ./"},
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
			map[string]string{"providers/sql/go.mod": strings.Replace(small["providers/sql/go.mod"], "\tex.org/driver v1.0.0\n", "", 1)},
			[]string{"providers/sql", "go.mod is not complete; run make tidy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := release(t, plant(t, c.changes), "check")
			require.Error(t, err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestTidy(t *testing.T) {
	serveDrivers(t)
	dir := plant(t, map[string]string{
		"providers/sql/go.mod": "module ex.org/lease/providers/sql\n\ngo 1.26.0\n\nrequire (\n\tex.org/driver v1.0.0\n\tex.org/lease v0.1.0\n\tex.org/stranger v1.0.0\n)\n",
	})
	require.ErrorContains(t, release(t, dir, "tidy", "-diff"), "run make tidy")
	require.NoFileExists(t, filepath.Join(dir, "providers/sql/go.sum"), "-diff changes nothing")

	require.NoError(t, release(t, dir, "tidy"))
	mod, err := os.ReadFile(filepath.Join(dir, "providers/sql/go.mod"))
	require.NoError(t, err)
	require.Equal(t, small["providers/sql/go.mod"], string(mod))
	sum, err := os.ReadFile(filepath.Join(dir, "providers/sql/go.sum"))
	require.NoError(t, err)
	require.Contains(t, string(sum), "ex.org/driver v1.0.0 h1:")
	require.NotContains(t, string(sum), "ex.org/lease", "sums of siblings would be those of the working tree")
	require.NoError(t, release(t, dir, "tidy", "-diff"))
}

func TestUpdateWritesWhatThenPasses(t *testing.T) {
	serveDrivers(t)
	dir := plant(t, map[string]string{"integration/release/allow/providers-sql.txt": "# nothing yet\n"})
	require.NoError(t, release(t, dir, "check", "-update"))
	require.NoError(t, release(t, dir, "check"))
}

func TestNothingIsLeftBehind(t *testing.T) {
	serveDrivers(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	dir := plant(t, map[string]string{"providers/sql/LICENSE": ""})
	require.Error(t, release(t, dir, "check"))
	require.NoError(t, release(t, dir, "tidy"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, run(ctx, dir, []string{"tidy"}))
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestArguments(t *testing.T) {
	dir := plant(t, nil)
	require.ErrorContains(t, release(t, dir), "want a command")
	require.ErrorContains(t, release(t, dir, "publish"), `unknown command "publish"`)
	require.ErrorContains(t, release(t, dir, "check", "now"), `unexpected argument "now"`)
	require.ErrorContains(t, release(t, t.TempDir(), "check"), "no go.work")
}

// This repository's own modules: what the tool takes for released.
func TestReleasedModulesHere(t *testing.T) {
	tree, err := loadTree(t.Context(), ".")
	require.NoError(t, err)
	require.NotEmpty(t, tree.released())
	require.Equal(t, ".", tree.modules[0].dir, "everything requires the root module")
	for _, m := range tree.released() {
		require.NotContains(t, unreleased, strings.Split(m.dir, "/")[0])
	}
}
