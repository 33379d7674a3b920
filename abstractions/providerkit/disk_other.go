//go:build !(linux || darwin || freebsd)

package providerkit

import "os"

// LocalDisk is nil if a folder is there: this system does not tell more.
func LocalDisk(path string) error { return localDisk(path) }

func localDisk(path string) error {
	_, err := os.Stat(path)
	return err
}
