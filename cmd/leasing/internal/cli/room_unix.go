//go:build unix

package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkAddressSpace returns an error if a limit on address space leaves no room for the connections to an SQLite file: a
// writer and a reader.
func checkAddressSpace() error {
	const each, others = 256 << 20, 128 << 20 // for the library's reservation for each connection, and for everything else
	room, err := unix.Mmap(-1, 0, 2*each+others, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("ulimit -v leaves no room for SQLite, which reserves 256 MiB of address space for each connection: %w", err)
	}
	return unix.Munmap(room)
}
