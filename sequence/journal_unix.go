//go:build unix && !solaris && !aix

package sequence

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed.
func lockFile(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrJournalInUse
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
