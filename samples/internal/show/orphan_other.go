//go:build !linux

package show

import "syscall"

// unlessOrphaned is Linux's. Elsewhere a worker notices by itself that its
// parent has died, unless it is paused.
func unlessOrphaned() *syscall.SysProcAttr { return nil }
