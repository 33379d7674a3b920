//go:build darwin || freebsd

package disk

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// local is MNT_LOCAL of sys/mount.h, on both systems: the file system is stored on this host.
const local = 0x1000

// Local returns nil if path is a folder on a disk of this host. Otherwise the error gives
// the reason, and matches ErrNetwork if other hosts may see the folder.
func Local(path string) error { return localDisk(path + "/") }

func localDisk(path string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	var name strings.Builder
	for _, c := range stat.Fstypename {
		if c == 0 {
			break
		}
		name.WriteByte(byte(c))
	}
	if stat.Flags&local == 0 || isServed(name.String()) {
		return fmt.Errorf("%s is on %s: %w", path, name.String(), ErrNetwork)
	}
	return nil
}

// isServed reports whether a program or another host serves a file system that may call itself local.
func isServed(name string) bool {
	for _, part := range []string{"fuse", "nfs", "smb", "cifs", "afp", "webdav", "virtiofs", "p9fs", "9p", "hgfs", "vboxvfs", "vboxsf", "prl_fs", "acfs"} {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}
