//go:build !linux

package torture

import "time"

// machineTime is the wall clock where we know of no monotonic one that processes
// share. Don't step it during a run with processes.
func machineTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
