//go:build !unix || solaris || aix

package sequence

import "os"

// lockFile does nothing: this system has no flock(2).
func lockFile(*os.File) error { return nil }
