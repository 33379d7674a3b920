//go:build linux || darwin || freebsd

package filelease

import (
	"errors"
	"os"
	"syscall"

	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
)

// check returns an error unless a folder is on a disk of the host. Tests replace the variable.
var check = disk.Local

// tryLock acquires a lock, which lasts until the file is closed or the process ends. It
// returns false if another process has the lock, or the file was deleted.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	mine, err2 := file.Stat()
	present, err3 := os.Stat(file.Name())
	return err == nil && err2 == nil && err3 == nil && os.SameFile(mine, present), err
}
