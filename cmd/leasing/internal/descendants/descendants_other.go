//go:build unix && !linux

package descendants

// AdoptsOrphans is false, because this system has no way to keep descendants whose parent has ended.
const AdoptsOrphans = false

// AdoptOrphans does nothing.
func AdoptOrphans(bool) {}

// Visit visits the only descendant that this system can name: the command, even in a group of its own.
func Visit(_, command int, visit func(pid int) bool) {
	if command != 0 {
		_ = visit(command)
	}
}
