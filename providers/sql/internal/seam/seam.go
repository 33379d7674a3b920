// Package seam gives package dialecttest access to the driver of a provider, which applications can't reach.
package seam

import (
	"sync/atomic"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

var (
	// Backend returns a pointer to a provider's backend.
	Backend func(provider any) *dialect.Backend
	// Store returns the store of a provider.
	Store func(provider any) *dialect.Store
	// Checked returns the time of a provider's latest check of its tables, in ns since 1970.
	Checked func(provider any) *atomic.Int64
)
