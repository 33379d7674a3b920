package broken

import "github.com/distributedleasing/leasing/abstractions"

// Defect is one way to be broken.
type Defect struct {
	Name string // as a sentence about the provider
	Trap string // "T18"
	// Plan names a ready-made plan of package chaos under which competing
	// workers come across the defect; "none" where they do without faults.
	Plan string
	// Wrap breaks a provider.
	Wrap func(abstractions.Provider) abstractions.Provider
}

// All returns the defects.
func All() []Defect {
	return []Defect{
		{Name: "two holders after a race", Trap: "T18", Plan: "none", Wrap: newRacer},
		{Name: "a release resets the token", Trap: "T21", Plan: "none", Wrap: newForgetful},
		{Name: "a renewal revives", Trap: "T20", Plan: "steal-lease", Wrap: newReviver},
		{Name: "leases expire early", Trap: "T24", Plan: "none", Wrap: newHasty},
		{Name: "leases expire late", Trap: "T19", Plan: "partition", Wrap: newTardy},
		{Name: "loss is signalled late", Trap: "T06", Plan: "none", Wrap: newSilent},
		{Name: "a key is immortal", Trap: "T17", Plan: "partition", Wrap: newImmortal},
		{Name: "releasing one frees the other's", Trap: "T26", Plan: "flaky-network", Wrap: newCareless},
		{Name: "a lost reply makes later renewals fail", Trap: "T15", Plan: "lost-replies", Wrap: newVersioned},
		{Name: "a retry is blocked by its first attempt", Trap: "T13", Plan: "lost-replies", Wrap: newSelfish},
		{Name: "a released claim is taken again", Trap: "T56", Plan: "flaky-network", Wrap: newGhostly},
		{Name: "a batch mixes up its answers", Trap: "T66", Plan: "none", Wrap: newMixer},
	}
}

// Correct wraps a provider without breaking it, to show that what is caught is
// the defect and not the wrapper.
func Correct(p abstractions.Provider) abstractions.Provider { return plain{p} }

// plain passes everything on and has no optional ability.
type plain struct{ abstractions.Provider }

func (plain) As(any) bool { return false }
