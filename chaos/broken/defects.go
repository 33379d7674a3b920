package broken

import (
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Defect is a deliberate defect of a provider.
type Defect struct {
	Name string // the effect of the defect in a few words
	Trap string // "T18"
	// Plan names a ready-made plan of package chaos under which competing
	// workers hit the defect, or "none" if they hit it without faults.
	Plan string
	// Wrap breaks a provider.
	Wrap func(abstractions.Provider) abstractions.Provider
}

// All returns the defects.
func All() []Defect {
	return []Defect{
		{Name: "two holders after a race", Trap: "T18", Plan: "none", Wrap: takesAfterLooking},
		{Name: "a release resets the token", Trap: "T21", Plan: "none", Wrap: resetsTokens},
		{Name: "a renewal revives", Trap: "T20", Plan: "steal-lease", Wrap: renewsLostLeases},
		{Name: "leases expire early", Trap: "T24", Plan: "none", Wrap: expiresEarly},
		{Name: "leases expire late", Trap: "T19", Plan: "partition", Wrap: expiresLate},
		{Name: "loss is signalled late", Trap: "T06", Plan: "none", Wrap: skipsRenewals},
		{Name: "a key is immortal", Trap: "T17", Plan: "partition", Wrap: neverExpires},
		{Name: "releasing one frees the other's", Trap: "T26", Plan: "flaky-network", Wrap: releasesAnyLease},
		{Name: "a lost reply makes later renewals fail", Trap: "T15", Plan: "lost-replies", Wrap: comparesVersions},
		{Name: "a retry is blocked by its first attempt", Trap: "T13", Plan: "lost-replies", Wrap: refusesRepetitions},
		{Name: "a released claim is taken again", Trap: "T56", Plan: "flaky-network", Wrap: grantsReleasedClaims},
		{Name: "a batch mixes up its answers", Trap: "T66", Plan: "none", Wrap: mixesBatches},
	}
}

// Correct wraps a provider without breaking it, to show that a test catches the defect and not the
// wrapper.
func Correct(p abstractions.Provider) abstractions.Provider { return withoutAbilities{p} }

// withoutAbilities passes on every call, and hides all optional abilities.
type withoutAbilities struct{ abstractions.Provider }

func (withoutAbilities) As(any) bool { return false }

// withHandler returns a provider without optional abilities that sends each request through handle.
func withHandler(p abstractions.Provider, handle providerkit.Handler) abstractions.Provider {
	return withoutAbilities{providerkit.Intercept(p, handle)}
}
