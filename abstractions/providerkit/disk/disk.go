// Package disk distinguishes the disks of this host from file systems that other hosts
// may see.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNetwork says that a path is on a file system where locks and renames of
// one process may be invisible to others.
var ErrNetwork = errors.New("leases need a disk of this host, but other hosts may see this file system, or a program serves it: " +
	"use a server, or set OneHost (one_host=true in a URL) if no other host uses the file system")

// LocalFile is Local for a file, which need not exist, and for the locks and logs
// beside the file. Symbolic links are followed to the real file.
func LocalFile(path string) error {
	const most = 40 // links in a row, as on Linux
	for range most {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if err := Local(filepath.Dir(path)); err != nil {
		return err
	}
	if err := localDisk(path); !errors.Is(err, fs.ErrNotExist) { // the file itself may be a mount point
		return err
	}
	return nil
}
