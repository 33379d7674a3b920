//go:build unix

package sqlitelease

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// dropRights drops this process's root privileges or, on request, uses up all descriptors.
func dropRights(what string) error {
	if os.Getuid() == 0 { // root has all permissions
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return err
		}
	}
	if strings.Contains(what, "descriptors") {
		if _, _, err := os.Pipe(); err != nil { // starts the poller of the runtime, which also has a descriptor
			return err
		}
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
		limit.Cur = 3 // fewer than are open
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
	}
	return nil
}
