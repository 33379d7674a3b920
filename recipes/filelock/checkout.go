package filelock

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checkoutFolder returns the folder for the state of a root in a git checkout. It is below the
// folder that `git rev-parse --git-common-dir` prints, which `git clean` leaves alone. It returns
// "" if the root is not in a checkout. See gitrepository-layout(5).
//
// Each worktree has its own files, and so its own folder there, named after the worktree. A root
// below the top of a worktree has a separate folder.
func checkoutFolder(root string) (string, error) {
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	for top := root; err == nil; top = filepath.Dir(top) {
		var common, name string
		common, name, err = gitFolders(filepath.Join(top, ".git"))
		switch {
		case err != nil:
		case common != "":
			if top != root {
				name += fmt.Sprintf("-%x", sha256.Sum256([]byte(strings.TrimPrefix(root, top))))[:17]
			}
			return filepath.Join(common, "leasing", name), nil
		case top == filepath.Dir(top):
			return "", nil
		}
	}
	return "", err
}

// gitFolders returns the folder that all worktrees of a repository share, and the name of
// this worktree. Both are "" if dotGit is not a repository. If .git is a file, it names the
// repository's folder. The folder of a linked worktree names the shared folder in its file
// commondir.
func gitFolders(dotGit string) (common, name string, err error) {
	info, err := os.Stat(dotGit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case err != nil:
		return "", "", err
	}
	common, name = dotGit, "main"
	if !info.IsDir() {
		text, err := os.ReadFile(dotGit)
		if err != nil {
			return "", "", err
		}
		path, is := strings.CutPrefix(string(text), "gitdir: ")
		if !is {
			return "", "", fmt.Errorf("%s does not begin with \"gitdir: \"", dotGit)
		}
		common = resolveRelative(dotGit, path)
	}
	text, err := os.ReadFile(filepath.Join(common, "commondir"))
	switch {
	case err == nil:
		name = "worktree-" + filepath.Base(common)
		common = resolveRelative(filepath.Join(common, "commondir"), string(text))
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	}
	_, err = os.Lstat(filepath.Join(common, "HEAD"))
	if errors.Is(err, fs.ErrNotExist) && info.IsDir() { // git also goes on to the folder above
		return "", "", nil
	}
	return common, name, err
}

// resolveRelative returns the path that a line of a file contains. The path may be relative to the
// file's folder.
func resolveRelative(file, line string) string {
	path := strings.TrimRight(line, "\r\n")
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path
}
