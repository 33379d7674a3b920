package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// siblings is a repository with a module that requires two of its siblings, but imports only one sibling.
var siblings = map[string]string{
	"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./other\n\t./user\n)\n\nreplace (\n\tex.org/lease v0.1.0 => ./\n\tex.org/lease/other v0.1.0 => ./other\n)\n",
	"go.mod":  "module ex.org/lease\n\ngo 1.26.0\n", "lease.go": "package lease\n",
	"other/go.mod": "module ex.org/lease/other\n\ngo 1.26.0\n", "other/other.go": "package other\n",
	"user/go.mod":  "module ex.org/lease/user\n\ngo 1.26.0\n\nrequire (\n\tex.org/lease v0.1.0\n\tex.org/lease/other v0.1.0\n)\n",
	"user/user.go": "package user\n\nimport _ \"ex.org/lease\"\n",
	"user/go.sum":  "ex.org/lease v0.1.0 h1:AAAA\n", // of a module that was packed once
}

// plantSiblings writes the repository into dir, with more files, and returns a function that
// runs the script in dir.
func plantSiblings(t *testing.T, dir string, more map[string]string) func(args ...string) (string, error) {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "")
	for _, files := range []map[string]string{siblings, more} {
		for name, text := range files {
			file := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "scripts"), 0o755))
	for _, name := range []string{"lib.sh", "tidy"} {
		script, err := os.ReadFile(filepath.Join(root, "scripts", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "scripts", name), script, 0o755))
	}
	return func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(dir, "scripts", "tidy"), args...).CombinedOutput()
		return string(out), err
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	tidy := plantSiblings(t, dir, nil)
	out, err := tidy("-diff")
	require.Error(t, err)
	require.Contains(t, out, "-\tex.org/lease/other v0.1.0\n")
	require.Contains(t, out, "-ex.org/lease v0.1.0 h1:AAAA\n")
	require.Contains(t, out, "run make tidy")
	for name, text := range siblings { // -diff changes nothing
		require.Equal(t, text, read(t, dir, name))
	}
	out, err = tidy()
	require.NoError(t, err, out)
	require.Contains(t, out, "tidied ./user/go.mod")
	require.Equal(t, "module ex.org/lease/user\n\ngo 1.26.0\n\nrequire ex.org/lease v0.1.0\n", read(t, dir, "user/go.mod"))
	require.NoFileExists(t, filepath.Join(dir, "user", "go.sum"))
	require.NoFileExists(t, filepath.Join(dir, "go.sum"))
	out, err = tidy("-diff")
	require.NoError(t, err, out)
	require.Empty(t, out)
}

func TestTidyFindsAModuleOutsideTheWorkspace(t *testing.T) {
	tidy := plantSiblings(t, t.TempDir(), map[string]string{"extra/go.mod": "module ex.org/lease/extra\n", "testdata/go.mod": "module ex.org/data\n"})
	out, err := tidy("-diff")
	require.Error(t, err)
	require.Contains(t, out, "go.work does not use ./extra\n")
	require.NotContains(t, out, "testdata")
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}
