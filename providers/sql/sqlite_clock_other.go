//go:build !linux

package sqllease

import "time"

// hostClock reads the host's wall clock: this system has no other clock that
// can be compared between processes and boots.
func hostClock() instant { return instant{wall: time.Now().Round(0)} }
