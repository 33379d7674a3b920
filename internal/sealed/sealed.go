// Package sealed closes the interfaces Manager and Lease of package
// abstractions: only types that embed Manager or Lease from here satisfy them.
// So these interfaces can grow without breaking anybody, and package leasing
// finds its own lease in whatever an application wraps around it.
package sealed

// ManagerInterface is embedded in the interface abstractions.Manager.
type ManagerInterface interface{ manager() }

// Manager is embedded in the implementation.
type Manager struct{}

func (Manager) manager() {}

// LeaseInterface is embedded in the interface abstractions.Lease.
type LeaseInterface interface{ lease() any }

// Lease is embedded in the implementation, which sets Self to itself.
type Lease struct{ Self any }

func (l Lease) lease() any { return l.Self }

// Self returns Lease.Self, also through wrappers that embed the lease.
func Self(l LeaseInterface) any { return l.lease() }
