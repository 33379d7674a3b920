//go:build unix && !linux

package kin

// Adopts is false: the system has no way to keep descendants whose parent has ended.
const Adopts = false

// Adopt does nothing.
func Adopt(bool) {}

// Visit visits the only descendant that this system can name: the command, even in a group of its own.
func Visit(_, command int, visit func(pid int) bool) {
	if command != 0 {
		_ = visit(command)
	}
}
