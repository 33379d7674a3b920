// Package cli has the state that all commands share: the streams, the global flags, and the backend that the flags
// name.
package cli

import (
	"time"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// App is one run of the program: its streams and the global flags.
type App struct {
	output.Printer
	URL, Config, Owner string
	Local              bool
	Timeout            time.Duration
}

// After returns a channel that fires once d has passed; if d is 0, the channel never fires.
func After(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}
