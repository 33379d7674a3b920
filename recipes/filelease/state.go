package filelease

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// StateFolder creates the folder .leasing in root, with a .gitignore, and returns its
// path. A database in it can hold the leases of all processes of this machine that
// share the tree:
//
//	folder, err := filelease.StateFolder(root)
//	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "sqlite://" + folder + "/leases.db", Create: true})
//
// On a network file system, or one that a program serves (FUSE), it returns an error that matches
// leasing.ErrNotSetUp: file locks do not work across hosts there, so the leases must be kept
// on a server. If this host alone uses the tree, make a folder yourself, and open the
// file with sqllease.Options.OneHost.
func StateFolder(root string) (string, error) {
	if err := providerkit.LocalDisk(root); err != nil {
		return "", fmt.Errorf("%w: %w", leasing.ErrNotSetUp, err)
	}
	folder := filepath.Join(root, ".leasing")
	if err := os.Mkdir(folder, 0o755); err != nil && !os.IsExist(err) {
		return "", err
	}
	ignore := filepath.Join(folder, ".gitignore")
	if _, err := os.Stat(ignore); os.IsNotExist(err) {
		err = os.WriteFile(ignore, []byte("*\n"), 0o644)
		if err != nil {
			return "", err
		}
	}
	return folder, nil
}
