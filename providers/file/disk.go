//go:build linux || darwin || freebsd

package filelease

import (
	"errors"
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

// check reports whether a folder is there, and on a disk of the host.
func check(path string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path+"/", &stat); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if name, found := network[uint32(stat.Type)]; found {
		return fmt.Errorf("%s is on %s: %w", path, name, errNetwork)
	}
	return nil
}

// tryLock takes a lock until the file is closed or the process ends. It is false if
// somebody else has it, or has deleted the file.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	mine, err2 := file.Stat()
	present, err3 := os.Stat(file.Name())
	return err == nil && err2 == nil && err3 == nil && os.SameFile(mine, present), err
}
