// Package seam lets package dialecttest reach into a provider, which shows applications nothing of its driver.
package seam

import (
	"sync/atomic"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

var (
	// Backend returns the place of a provider's backend.
	Backend func(provider any) *dialect.Backend
	// Store returns the store of a provider.
	Store func(provider any) *dialect.Store
	// Checked returns the time of a provider's latest check of its tables, in ns since 1970.
	Checked func(provider any) *atomic.Int64
)
