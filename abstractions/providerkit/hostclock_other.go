//go:build !linux

package providerkit

import "time"

// HostClock reads the host's wall clock: this system has no other clock that can
// be compared between processes and boots.
func HostClock() HostTime { return HostTime{Wall: time.Now().Round(0)} }
