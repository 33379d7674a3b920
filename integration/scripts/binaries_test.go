package scripts_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The repository contains only text, in files of less than half a megabyte.
func TestTheRepositoryHoldsNoBinaries(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root
	list, err := cmd.Output()
	require.NoError(t, err, "the test runs in a clone")
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		require.NoError(t, err)
		require.Less(t, len(content), 500_000, name)
		require.False(t, bytes.ContainsRune(content, 0), "%s has a NUL", name)
	}
}
