//go:build !unix

package usage

import "time"

// CPU is not known here.
func CPU() time.Duration { return 0 }
