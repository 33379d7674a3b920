//go:build !(linux || darwin || freebsd)

package filelease

import "os"

func check(string) error { return errNoLocks }

func tryLock(*os.File) (bool, error) { return false, errNoLocks }
