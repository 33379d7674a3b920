//go:build !(linux || darwin || freebsd)

package providerkit

import "os"

// LocalDisk returns nil if a folder exists: this system does not show the kind of its disk.
func LocalDisk(path string) error { return localDisk(path) }

func localDisk(path string) error {
	_, err := os.Stat(path)
	return err
}
