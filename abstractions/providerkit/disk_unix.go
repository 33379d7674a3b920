//go:build linux || darwin || freebsd

package providerkit

import (
	"fmt"
	"os"
	"syscall"
)

// network are the file systems that more than one host may see, or whose locks and
// renames are a program's, by Linux's numbers (linux/magic.h).
var network = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x5346414f: "AFS", 0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x01021997: "9P", 0x65735546: "FUSE", 0x7461636f: "OCFS2", 0x01161970: "GFS2",
}

// LocalDisk returns nil if path is a folder on a disk of this host. Otherwise the
// error says what is wrong, and matches ErrNetworkDisk if other hosts may see the
// folder too.
func LocalDisk(path string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path+"/", &stat); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if name, found := network[uint32(stat.Type)]; found {
		return fmt.Errorf("%s is on %s: %w", path, name, ErrNetworkDisk)
	}
	return nil
}
