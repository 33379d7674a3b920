package filelease

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// StateFolder makes the folder .leasing in a root, which git ignores, and returns its
// path. A database in it has the leases of all processes of this machine that share
// the tree:
//
//	folder, err := filelease.StateFolder(root)
//	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "sqlite://" + folder + "/leases.db", Create: true})
//
// On a network file system it returns an error that matches leasing.ErrNotSetUp: locks
// of one host mean nothing to others there, so the leases have to be at a server.
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
