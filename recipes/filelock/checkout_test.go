package filelock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// git runs git in a folder, without the configuration of this machine.
func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// The state of a checkout outlives `git clean -fdx`, and belongs to one worktree.
func TestTrap_T135_GitCleanLeavesTheStateAlone(t *testing.T) {
	top := folderWith(t, "repository/sub/a", "outside/")
	repository := filepath.Join(top, "repository")
	git(t, repository, "init", "-q")
	git(t, repository, "add", ".")
	git(t, repository, "commit", "-q", "-m", "first")
	git(t, repository, "worktree", "add", "-q", filepath.Join(top, "linked"), "-b", "linked")
	git(t, repository, "worktree", "add", "-q", filepath.Join(repository, "nested"), "-b", "nested")
	git(t, top, "init", "-q", "--separate-git-dir", filepath.Join(top, "elsewhere"), filepath.Join(top, "apart"))
	git(t, repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository, "module")
	require.NoError(t, os.MkdirAll(filepath.Join(repository, "sub", ".git"), 0o755), "an empty one is none")
	require.NoError(t, os.Symlink(repository, filepath.Join(top, "link")))

	roots := []string{"repository", "repository/sub", "linked", "linked/sub", "repository/nested", "repository/module", "apart"}
	state := map[string]string{}
	for _, name := range roots {
		root := filepath.Join(top, name)
		folder, err := StateFolder(root)
		require.NoError(t, err, name)
		common := git(t, strings.TrimSuffix(root, "/sub"), "rev-parse", "--path-format=absolute", "--git-common-dir")
		require.Equal(t, filepath.Join(common, "leasing"), filepath.Dir(folder), name)
		require.NotContains(t, state, folder, "two roots have other files")
		state[folder] = name
		require.NoError(t, os.WriteFile(filepath.Join(folder, "leases.db"), []byte("leases"), 0o644))
	}
	again, err := StateFolder(filepath.Join(top, "link"))
	require.NoError(t, err)
	require.Equal(t, "repository", state[again], "one tree by another path")

	for _, name := range []string{"repository", "linked", "apart"} {
		git(t, filepath.Join(top, name), "clean", "-q", "-fdx")
	}
	for folder := range state {
		require.FileExists(t, filepath.Join(folder, "leases.db"))
	}
	require.Empty(t, git(t, filepath.Join(top, "linked"), "status", "--porcelain", "--ignored"))

	folder, err := StateFolder(filepath.Join(top, "outside"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(top, "outside", ".leasing"), folder)
	git(t, filepath.Join(top, "outside"), "init", "-q")
	_, err = StateFolder(filepath.Join(top, "outside"))
	require.ErrorIs(t, err, leasing.ErrNotSetUp, "a process may use the old one")
	require.ErrorContains(t, err, "delete the folder")
	require.NoError(t, os.RemoveAll(folder))
	folder, err = StateFolder(filepath.Join(top, "outside"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(top, "outside", ".git", "leasing", "main"), folder)

	broken := folderWith(t, ".git")
	_, err = StateFolder(broken)
	require.ErrorIs(t, err, leasing.ErrNotSetUp)
	require.ErrorContains(t, err, "gitdir")
	require.NoError(t, os.WriteFile(filepath.Join(broken, ".git"), []byte("gitdir: nowhere\n"), 0o644))
	_, err = StateFolder(broken)
	require.ErrorIs(t, err, leasing.ErrNotSetUp)
}
