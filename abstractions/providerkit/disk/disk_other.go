//go:build !(linux || darwin || freebsd)

package disk

import "os"

// Local returns nil if a folder exists: this system does not report the kind of its
// disk.
func Local(path string) error { return localDisk(path) }

func localDisk(path string) error {
	_, err := os.Stat(path)
	return err
}
