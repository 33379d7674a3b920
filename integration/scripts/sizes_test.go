package scripts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of docs/cli.md, which scripts/sizes writes, has the size of each backend of the command.
func TestThePageNamesTheCostsOfEachBackend(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "cli.md"))
	require.NoError(t, err)
	code, err := os.ReadFile(filepath.Join(root, "cmd", "leasing", "internal", "cli", "backend.go"))
	require.NoError(t, err)
	imported := regexp.MustCompile(`"github.com/distributedleasing/leasing/(providers/[a-z/]+)"`).FindAllSubmatch(code, -1)
	require.NotEmpty(t, imported)
	for _, provider := range imported {
		require.Regexp(t, "(?m)^\\| `"+string(provider[1])+"` \\| [0-9.]+ \\| [0-9.]+ \\| [0-9.]+ \\(-[0-9.]+\\) \\|$", string(page), "scripts/sizes --update writes it")
	}
	require.Regexp(t, "(?m)^In megabytes, .* with go1[0-9.]+ at commit [0-9a-f]{8}\\.$", string(page))
}

// Each line that builds the command for its users strips the binary.
func TestInstalledBinariesAreStripped(t *testing.T) {
	build := regexp.MustCompile(`(?m)^.*go (install|build) .*cmd/leasing.*$`)
	for _, file := range []string{"docs/cli.md", "deploy/Dockerfile", ".github/workflows/release.yml"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		lines := build.FindAllString(string(text), -1)
		require.NotEmpty(t, lines, file)
		for _, line := range lines {
			require.Contains(t, line, "-trimpath -ldflags='-s -w'", file)
		}
	}
}
