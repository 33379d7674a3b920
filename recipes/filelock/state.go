package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
)

// StateFolder creates the folder of a tree's state, and returns its path. A database in it
// can hold the leases of all processes of this machine that share the tree:
//
//	folder, err := filelock.StateFolder(root)
//	provider, err := sqlitelease.Open(ctx, sqlitelease.Options{URL: "sqlite://" + folder + "/leases.db", Create: true})
//
// In a git checkout the folder is in the repository's own folder (.git/leasing/main, or
// .git/leasing/worktree-NAME for a linked worktree), which `git clean` leaves alone.
// Worktrees have different files, so their leases do not exclude each other. Elsewhere the
// folder is .leasing in root, with a .gitignore. If that folder is deleted or replaced,
// a holder notices the loss at its next renewal.
//
// A checkout that has a .leasing of an earlier version is refused: a process may still
// use that folder. Delete the folder when no process uses it any more. The error matches
// leasing.ErrNotSetUp, as it does on a network file system, or on a file system that a program
// serves (FUSE): file locks do not work across hosts there, so the leases must be kept on a server.
// If this host alone uses the tree, make a folder yourself, and open the file with
// sqlitelease.Options.OneHost.
func StateFolder(root string) (string, error) {
	notSetUp := func(err error) error { return fmt.Errorf("%w: %w", leasing.ErrNotSetUp, err) }
	if err := disk.Local(root); err != nil {
		return "", notSetUp(err)
	}
	old := filepath.Join(root, ".leasing")
	folder, err := checkoutFolder(root)
	if err != nil {
		return "", notSetUp(err)
	}
	if folder == "" {
		return old, makeIgnored(old)
	}
	if _, err := os.Lstat(old); err == nil {
		return "", notSetUp(fmt.Errorf("%s was made before this was a git checkout, or by an earlier version: delete the folder when no process uses the tree", old))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := disk.Local(folder); err != nil {
		return "", notSetUp(err)
	}
	return folder, nil
}

// makeIgnored makes a folder that git ignores.
func makeIgnored(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	ignore := filepath.Join(folder, ".gitignore")
	_, err := os.Stat(ignore)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(ignore, []byte("*\n"), 0o644)
	}
	return err
}
