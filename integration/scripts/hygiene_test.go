package scripts_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// workflow has the checked parts of a workflow.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Uses        string
		Strategy    struct {
			Matrix struct{ Include []map[string]string }
		}
		Steps []step
	}
}

type step struct {
	Uses string
	With map[string]any
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 5)
	all := map[string]workflow{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal(text, &w), file)
		all[filepath.Base(file)] = w
	}
	return all
}

// A tag can be moved to other code, which would run with the workflow's permissions.
func TestEachActionIsPinnedByItsHash(t *testing.T) {
	used := regexp.MustCompile(`\buses: *(\S+)(.*)`)
	pinned := regexp.MustCompile(`^([^@]+)@([0-9a-f]{40})$`)
	version := regexp.MustCompile(`^ # v[0-9]+\.[0-9]+\.[0-9]+$`)
	known := map[string]string{} // by owner and repository: the only allowed hash and version
	for name := range workflows(t) {
		text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", name))
		require.NoError(t, err)
		for _, match := range used.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(match[1], "./") {
				continue
			}
			pin := pinned.FindStringSubmatch(match[1])
			require.NotNil(t, pin, "%s: %s", name, match[0])
			require.Regexp(t, version, match[2], "%s: %s", name, match[0])
			action := strings.Join(strings.Split(pin[1], "/")[:2], "/")
			if known[action] == "" {
				known[action] = pin[2] + match[2]
			}
			require.Equal(t, known[action], pin[2]+match[2], "%s: %s", name, match[0])
		}
	}
	require.Contains(t, known, "actions/checkout")
}

// A workflow may only read the repository, and a job lists each further permission that it needs.
func TestEachWorkflowHasTheLeastPermissions(t *testing.T) {
	more := map[string]map[string]string{}
	for name, w := range workflows(t) {
		require.Equal(t, map[string]string{"contents": "read"}, w.Permissions, name)
		for job, j := range w.Jobs {
			rights := maps.Clone(j.Permissions)
			if rights["contents"] == "read" {
				delete(rights, "contents")
			}
			if len(rights) > 0 {
				more[name+" "+job] = rights
			}
			for _, s := range j.Steps {
				if strings.HasPrefix(s.Uses, "actions/checkout@") && j.Permissions["contents"] != "write" {
					require.Equal(t, false, s.With["persist-credentials"], "%s leaves the token in the working copy", name)
				}
			}
		}
	}
	require.Equal(t, map[string]map[string]string{
		"azure.yml service":   {"id-token": "write"},
		"codeql.yml analyze":  {"security-events": "write"},
		"release.yml release": {"contents": "write"},
	}, more)
}

// The workflow on Azure runs tests that exist, and the scripts export the variables that
// these tests read.
func TestTheAzureWorkflowFindsItsTests(t *testing.T) {
	jobs := workflows(t)["azure.yml"].Jobs["service"].Strategy.Matrix.Include
	require.Len(t, jobs, len(azureScripts))
	for _, job := range jobs {
		tests := testsOf(t, job["folder"])
		require.Contains(t, tests, "func "+job["test"]+"(t *testing.T)", job["service"])
		require.Contains(t, azureScripts, job["service"])
		_, out, _, _ := newAzure(t, job["service"]).run(0, "up")
		exported := regexp.MustCompile(`\b([A-Z][A-Z_]+)=`).FindAllStringSubmatch(out, -1)
		require.GreaterOrEqual(t, len(exported), 2)
		for _, variable := range exported {
			require.True(t, variable[1] == "LEASING_URL" || strings.Contains(tests, `"`+variable[1]+`"`), "no test of %s reads %s", job["folder"], variable[1])
		}
	}
}

// The workflow on SQL Server runs tests that exist and read its variable.
func TestTheWorkflowOfSQLServerFindsItsTests(t *testing.T) {
	workflow, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "sqlserver.yml"))
	require.NoError(t, err)
	for test, folder := range map[string]string{"TestConformance_sqlserver": "providers/sql/sqlserver", "TestTorture_sqlserver": "integration/torture"} {
		require.Contains(t, string(workflow), "PASS: "+test+"'")
		tests := testsOf(t, folder)
		require.Contains(t, tests, "func "+test+"(t *testing.T)")
		require.Contains(t, tests, `"LEASING_TEST_SQLSERVER"`)
	}
}

// testsOf returns the text of the tests in a folder.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	return tests.String()
}

func TestDependabotLooksAtEachModule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	require.NoError(t, err)
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	var patterns []string
	for _, update := range config.Updates {
		if update.Ecosystem == "gomod" {
			patterns = update.Directories
		}
	}
	unused := slices.Clone(patterns)
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "go.mod" {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		require.NoError(t, err)
		folder = path.Join("/", filepath.ToSlash(folder))
		found := slices.IndexFunc(patterns, func(pattern string) bool { matches, _ := path.Match(pattern, folder); return matches })
		require.GreaterOrEqual(t, found, 0, "dependabot.yml leaves %s out", folder)
		unused = slices.DeleteFunc(unused, func(pattern string) bool { return pattern == patterns[found] })
		return nil
	}))
	require.Empty(t, unused)
}
