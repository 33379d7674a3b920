//go:build unix && !linux

package descendants

// AdoptsOrphans is false, because on this system a process can't become the parent of descendants
// whose own parent has ended.
const AdoptsOrphans = false

// AdoptOrphans does nothing.
func AdoptOrphans(bool) {}

// Visit visits only the command, even if its group has other processes: this system has no way to find other
// descendants.
func Visit(_, command int, visit func(pid int) bool) {
	if command != 0 {
		_ = visit(command)
	}
}
